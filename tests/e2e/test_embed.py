import json
import math
import pathlib
import shutil

import harness

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "encoders"
WORDS = "[PAD] [CLS] [SEP] [UNK] what is a page table tree the of memory maps keys to pages river flows slow ly ##s ##ly".split()


class Embed(harness.Case):
    """lithe embed and lithe rerank on tiny random encoders with a vocabulary of a few words."""

    def encoder(self, name):
        folder = self.folder / name
        if not folder.exists():
            shutil.copytree(GOLDEN / name, folder)
            special = [{"id": i, "content": WORDS[i], "special": True, "normalized": False, "lstrip": False, "rstrip": False,
                        "single_word": False} for i in range(4)]
            pair = lambda token: [token, WORDS.index(token)]
            (folder / "tokenizer.json").write_text(json.dumps({
                "version": "1.0", "added_tokens": special,
                "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                               "strip_accents": None, "lowercase": True},
                "pre_tokenizer": {"type": "BertPreTokenizer"},
                "post_processor": {"type": "BertProcessing", "sep": pair("[SEP]"), "cls": pair("[CLS]")},
                "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
                "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                          "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(WORDS)}}}))
            (folder / "tokenizer_config.json").write_text(json.dumps({"cls_token": "[CLS]", "sep_token": "[SEP]",
                                                                      "pad_token": "[PAD]", "unk_token": "[UNK]"}))
        return folder

    def roberta(self, name):
        """With a unigram vocabulary, whose texts are joined by two tokens."""
        folder = self.folder / name
        if folder.exists():
            return folder
        shutil.copytree(GOLDEN / name, folder)
        mark = lambda token: {"SpecialToken": {"id": token, "type_id": 0}}
        text = lambda which: {"Sequence": {"id": which, "type_id": 0}}
        special = ["<s>", "<pad>", "</s>", "<unk>"]
        pieces = [[token, 0.0] for token in special] + [["\u2581" + word, -3.0 - i / 9] for i, word in enumerate(WORDS[4:17])]
        blanks = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
        (folder / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "normalizer": None, "decoder": blanks,
            "added_tokens": [{"id": i, "content": token, "special": True, "normalized": False, "lstrip": False, "rstrip": False,
                              "single_word": False} for i, token in enumerate(special)],
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, blanks]},
            "post_processor": {
                "type": "TemplateProcessing", "single": [mark("<s>"), text("A"), mark("</s>")],
                "pair": [mark("<s>"), text("A"), mark("</s>"), mark("</s>"), text("B"), mark("</s>")],
                "special_tokens": {token: {"id": token, "ids": [i], "tokens": [token]} for i, token in enumerate(special[:3])}},
            "model": {"type": "Unigram", "unk_id": 3, "vocab": pieces, "byte_fallback": False}}))
        (folder / "tokenizer_config.json").write_text(json.dumps({
            "bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>",
            "unk_token": "<unk>"}))
        return folder

    def vectors(self, *args, **kwargs):
        return json.loads(self.out("embed", *args, "--embd-output-format", "array", **kwargs))

    def test_formats_and_sources_agree(self):
        model = self.encoder("bert")
        texts = ["what is a page table", "the river flows slowly"]
        both = self.vectors("-m", model, *texts)
        self.assertEqual([len(vector) for vector in both], [32, 32])
        for vector in both:
            self.assertAlmostEqual(math.fsum(x * x for x in vector), 1, places=5)
        self.assertEqual(self.vectors("-m", model, texts[1]), [both[1]])  # alone or beside others
        answer = json.loads(self.out("embed", "-m", model, *texts, "--embd-output-format", "json"))
        self.assertEqual([item["embedding"] for item in answer["data"]], both)
        self.assertEqual(answer["usage"]["prompt_tokens"], 7 + 7)
        file = self.folder / "texts"
        file.write_text("\n".join(texts))
        self.assertEqual(self.vectors("-m", model, "-f", file), both)
        file.write_text("<#>".join(texts))
        self.assertEqual(self.vectors("-m", model, "-f", file, "--embd-separator", "<#>"), both)
        raw = self.out("embed", "-m", model, texts[0], "--embd-output-format", "raw").split()
        self.assertEqual(len(raw), 32)
        self.assertRegex(self.out("embed", "-m", model, texts[0]), r"^embedding 0: -?0\.\d{6} ")

    def test_pooling_and_norms(self):
        model = self.encoder("bert")
        rows = self.vectors("-m", model, "page table", "--pooling", "none", "--embd-normalize", "-1")[0]
        self.assertEqual(len(rows), 4)  # [CLS] page table [SEP]
        plain = lambda pooling: self.vectors("-m", model, "page table", "--pooling", pooling, "--embd-normalize", "-1")[0]
        self.assertEqual(plain("cls"), rows[0])
        self.assertEqual(plain("last"), rows[3])
        for got, column in zip(plain("mean"), zip(*rows)):
            self.assertAlmostEqual(got, math.fsum(column) / 4, places=5)
        self.assertEqual(plain("auto"), plain("mean"))
        (model / "1_Pooling").mkdir(exist_ok=True)
        (model / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
        self.assertEqual(plain("auto"), rows[0])  # as Sentence Transformers says
        shutil.rmtree(model / "1_Pooling")
        largest = self.vectors("-m", model, "page table", "--embd-normalize", "0")[0]
        self.assertAlmostEqual(max(map(abs, largest)), 32760, delta=1)

    def test_a_converted_file_gives_the_same(self):
        model, out = self.encoder("bert"), self.folder / "bert.gguf"
        self.out("convert", model, out, "--type", "f32")
        self.assertEqual(self.vectors("-m", out, "what is a page table"), self.vectors("-m", model, "what is a page table"))

    def test_rerank(self):
        model = self.encoder("bert_rank")
        documents = ["a page table maps keys to pages", "the river flows", "memory of a tree"]
        answer = json.loads(self.out("rerank", "-m", model, "-q", "what is a page table", *documents, "--json"))
        scores = {result["index"]: result["relevance_score"] for result in answer["results"]}
        self.assertEqual(sorted(scores), [0, 1, 2])
        self.assertEqual([r["relevance_score"] for r in answer["results"]], sorted(scores.values(), reverse=True))
        for i, document in enumerate(documents):  # alone or beside others
            one = json.loads(self.out("rerank", "-m", model, "-q", "what is a page table", document, "--json"))
            self.assertEqual(one["results"][0]["relevance_score"], scores[i])
        lines = self.out("rerank", "-m", model, "-q", "what is a page table", "-n", 2, *documents).splitlines()
        self.assertEqual(len(lines), 2)

    def test_rerank_with_two_separators(self):
        model, file, back = self.roberta("xlm_roberta_rank"), self.folder / "xlm.gguf", self.folder / "xlm-back"
        self.out("convert", model, file, "--type", "f32")
        self.out("convert", file, back, "--hf")
        documents = ["a page table maps keys to pages", "memory of a tree"]
        def rerank(source):
            said = json.loads(self.out("rerank", "-m", source, "-q", "what is a page table", *documents, "--json"))
            return said["usage"], said["results"]
        answer = rerank(model)
        # <s> what is a page table </s> </s> ... </s>
        self.assertEqual(answer[0]["total_tokens"], (5 + 4) * 2 + 7 + 4)
        self.assertEqual(rerank(file), answer)
        self.assertEqual(rerank(back), answer)
        joined = json.loads((back / "tokenizer.json").read_text())["post_processor"]["pair"]
        self.assertEqual([list(part)[0] for part in joined], ["SpecialToken", "Sequence", "SpecialToken", "SpecialToken",
                                                              "Sequence", "SpecialToken"])

    def test_a_directory_written_of_a_file_pools_alike(self):
        model, file, back = self.encoder("bert"), self.folder / "pooled.gguf", self.folder / "bert-back"
        (model / "1_Pooling").mkdir(exist_ok=True)
        (model / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
        vectors = self.vectors("-m", model, "what is a page table")
        self.out("convert", model, file, "--type", "f32")
        self.out("convert", file, back, "--hf")
        shutil.rmtree(model / "1_Pooling")
        self.assertNotEqual(self.vectors("-m", model, "what is a page table"), vectors)  # the mean
        self.assertEqual(self.vectors("-m", file, "what is a page table"), vectors)
        self.assertEqual(self.vectors("-m", back, "what is a page table"), vectors)
        modules = json.loads((back / "modules.json").read_text())
        self.assertEqual([module["path"] for module in modules], ["", "1_Pooling"])

    def test_refusals(self):
        model = self.encoder("bert")
        self.assertIn("no classification head", self.refused(1, "rerank", "-m", model, "-q", "a", "b"))
        self.assertIn("`lithe embed`", self.refused(1, "run", "-m", model, "-p", "page"))
        self.assertIn("text 1 has", self.refused(2, "embed", "-m", model, "page", "page " * 200))
        self.assertIn("context of 128", self.refused(2, "embed", "-m", model, "page " * 200))
        empty = self.folder / "empty"
        empty.write_text("")
        self.assertIn("no text", self.refused(2, "embed", "-m", model, "-f", empty))

    def test_what_would_be_read_wrongly_is_refused(self):
        folder = self.encoder("modernbert_rank")
        config = json.loads((folder / "config.json").read_text())
        for key, value, says in (("classifier_pooling", "max", "classifier_pooling"),
                                 ("layer_types", ["full_attention", "sliding_attention", "full_attention", "full_attention"],
                                  "without a period"),
                                 ("hidden_activation", "relu", "hidden_activation")):
            (folder / "config.json").write_text(json.dumps(config | {key: value}))
            self.assertIn(says, self.refused(1, "rerank", "-m", folder, "-q", "a", "b"))
        (folder / "config.json").write_text(json.dumps(config))

    def test_decoders_embed_too(self):
        vectors = self.vectors("-m", self.random(), "hello")
        self.assertEqual(len(vectors[0]), 64)


if __name__ == "__main__":
    harness.main()
