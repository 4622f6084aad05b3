"""Inputs that broke engines of this kind, by the numbers of docs/field-cases.md, each through the command line."""
import json
import math
import operator
import os
import pathlib
import random
import socket
import subprocess
import tempfile

import harness
import tiny_gguf
import tiny_hf

PARITY = pathlib.Path(__file__).resolve().parent.parent / "parity"
VOCABULARIES, TEMPLATES = PARITY / "tokenizer", PARITY / "templates"
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Case(harness.Case):
    def file(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    def directory(self, model, name, *flags):
        """The model as a Hugging Face directory."""
        folder = self.folder / name
        self.out("convert", model, folder, "--hf", "--type", "f32", *flags)
        return folder

    def tokens(self, model, *flags, prompt="hello", n=12):
        """A greedy answer, by the arithmetic in which nothing is rounded."""
        return self.json("run", "-m", model, "--raw", "-p", prompt, "-n", n, "--temp", 0, "--ignore-eos", "--precision",
                         "f32", "-ctk", "f32", "--json", *flags)["tokens"]


class Tokenizing(Case):
    starting = {}      # model: seconds of a run on nothing
    byte_level = [str(VOCABULARIES / f"{name}.gguf") for name in ("smollm", "llama-bpe")]
    # SentencePiece by scores, and by merges; patterns that are run by the engine of our own
    models = byte_level + [str(VOCABULARIES / f"{name}.gguf") for name in ("tabs", "gemma4", "deepseek-coder")]

    def processor_time(self, model, file, out=subprocess.DEVNULL):
        """The processor's seconds that `lithe tokenize` takes, whatever else the machine does."""
        process = subprocess.Popen([harness.BIN, "tokenize", "-m", model, "--no-special", "--json", "--file", file],
                                   stdout=out, env=harness.clean_environment(**self.env))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return usage.ru_utime + usage.ru_stime

    def encode_time(self, model, text, out=subprocess.DEVNULL):
        """Beyond that of a run on nothing."""
        path = self.file("text.txt", text)
        if model not in self.starting:
            empty = self.file("empty.txt", "")
            self.starting[model] = min(self.processor_time(model, empty) for _ in range(5))
        return max(self.processor_time(model, path, out) - self.starting[model], 0.0)

    def encode(self, model, text):
        """Ids, and the time they took."""
        with tempfile.TemporaryFile("w+") as out:
            seconds = self.encode_time(model, text, out)
            out.seek(0)
            return json.load(out)["ids"], seconds

    def test_field_case_1_tabs_before_a_word(self):
        goldens = json.loads((VOCABULARIES / "field_case_1.json").read_text())
        self.assertTrue(any(case[0] == "\t\t\t\t\t\ttest" for case in goldens["tabs"]))
        equal = 0
        for name, cases in goldens.items():
            model = VOCABULARIES / f"{name}.gguf"
            for text, expected, decoded in cases:
                ids = self.json("tokenize", "-m", model, "--no-special", "--json", stdin=text)["ids"]
                self.assertEqual(ids, expected, (name, text))
                self.assertEqual(self.json("detokenize", "-m", model, "--json", stdin=json.dumps(ids))["text"], decoded)
                self.assertEqual(decoded, text)
                equal += 1
        print(f"[ counts ] case 1: {equal} texts with tabs: ids as SentencePiece's, and back")

    def fixed_point(self, model, text, *special):
        """Ids of `text`; asserts that they and their text stay as they are from then on."""
        ids, seen = self.json("tokenize", "-m", model, "--json", stdin=text)["ids"], None
        for turn in range(5):
            now = self.json("detokenize", "-m", model, "--json", stdin=json.dumps(ids))["text"]
            self.assertIn(seen, (None, now), f"turn {turn}")
            again = self.json("tokenize", "-m", model, "--json", stdin=now)["ids"]
            self.assertEqual(again, ids, f"turn {turn}: {now!r}")
            seen = now
        for token in special:
            self.assertIn(token, seen)
        return seen

    def test_field_case_2_a_transcript_comes_to_rest(self):
        # Phi-3's control tokens take the blanks after them along, a rule that GGUF has no key for.
        vocab = tiny_gguf.SentencePiece(["\u4f60"], end="<|end|>")
        source = (TEMPLATES / "microsoft-Phi-3.5-mini-instruct.jinja").read_text(encoding="utf-8")
        model = self.folder / "phi.gguf"
        tiny_gguf.vocabulary_alone(model, vocab, source, **{"general.architecture": "phi3"})
        messages = self.file("transcript.json", [
            {"role": "system", "content": "  the heat"}, {"role": "user", "content": "\n\n \u4f60 the  "},
            {"role": "assistant", "content": " \tthe\n"}, {"role": "user", "content": "  "}])
        transcript = self.out("template", "-m", model, "--messages", messages)
        self.assertIn("<|user|>\n\n\n \u4f60 the  <|end|>\n", transcript)
        text = self.fixed_point(model, transcript, "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
        self.assertIn("<|user|>", text)
        self.assertNotRegex(text, r"<\|user\|>\n")                       # they do take them along
        self.assertEqual(text.count("<s>"), 1)

    def test_field_case_2_with_the_rules_of_tokenizer_json(self):
        folder = self.folder / "rules"
        folder.mkdir()
        for shape in ("llama", "qwen2"):
            tokenizer = json.loads((PARITY / "tokenizer_json" / f"{shape}.json").read_text(encoding="utf-8"))
            first = 1 + max(max(tokenizer["model"]["vocab"].values()), max(t["id"] for t in tokenizer["added_tokens"]))
            for i, (content, left, right) in enumerate((("<|u|>", False, True), ("<|a|>", True, True), ("<|e|>", True, True))):
                tokenizer["added_tokens"].append({"id": first + i, "content": content, "single_word": False, "lstrip": left,
                                                  "rstrip": right, "normalized": False, "special": True})
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
            (folder / "config.json").write_text("{}")
            text = "<|u|> \n  the heat \t<|e|>\n<|a|>\u3000 hi  <|e|> \n<|u|>\n\n<|e|>"
            rest = self.fixed_point(folder, text, "<|u|>", "<|a|>", "<|e|>")
            self.assertLess(len(rest), len(text))

    def test_field_case_3_one_character_again_and_again(self):
        for model in self.models:
            for unit, times in (("A", 30000), ("你", 30000), (".", 30000), (" ", 30000), ("us", 200), ("us", 30000)):
                ids, seconds = self.encode(model, unit * times)
                text = self.json("detokenize", "-m", model, "--json", stdin=json.dumps(ids))["text"]
                self.assertEqual(text, unit * times)
                # What is quadratic takes minutes here; what is linear, milliseconds.
                self.assertLess(seconds, 2.0, (model, unit))

    def test_field_case_3_is_answered_or_refused_by_length(self):
        model = self.model("long", tiny_gguf.chain, {**tiny_gguf.alphabet(), "A": "B"}, context=40000)
        for unit, times in (("A", 30000), ("你", 10000), (".", 30000), (" ", 30000), ("us", 200)):
            path = self.folder / "prompt.txt"
            path.write_text(unit * times, encoding="utf-8")
            self.assertEqual(self.json("run", "-m", model, "-f", path, "-n", 2, "--json")["text"], "AB", unit)
        path.write_text("你" * 30000, encoding="utf-8")            # a token a byte: too long
        error = self.refused(2, "run", "-m", model, "-f", path)
        self.assertIn("40000", error)

    def test_field_case_4_four_times_the_text_takes_at_most_five_times_as_long(self):
        rng = random.Random(4)
        words = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyzéü你") for _ in range(rng.randint(1, 12))) for _ in range(5000)]
        def text(size):
            out, length = [], 0
            while length < size:
                out.append(rng.choice(words))
                length += len(out[-1]) + 1
            return " ".join(out)[:size]
        for model in self.models:
            # The least of several, by turns: caches and clocks differ from run to run.
            bodies = (text(100_000), text(400_000))
            # What grows with the square takes 16 times as long, again and again; a busy machine does not.
            for _ in range(4):
                turns = [[self.encode_time(model, body) for body in bodies] for _ in range(4)]
                short, long = (min(times) for times in zip(*turns))
                if long < 5 * max(short, 0.005):
                    break
            self.assertLess(long, 5 * max(short, 0.005), model)


class Prompts(Case):
    def test_field_case_5_exactly_one_bos(self):
        for add_bos in (True, False):
            gguf = self.model(f"bos{add_bos}", tiny_gguf.chain, tiny_gguf.alphabet(), **{"tokenizer.ggml.add_bos_token": add_bos})
            for model in (gguf, self.directory(gguf, f"bos{add_bos}-hf")):
                for flags, expected in ((["-p", "hi"], 1), (["--raw", "-p", "<s>\n"], 1), (["--raw", "-p", "\n"], int(add_bos))):
                    usage = self.json("run", "-m", model, "--json", "-n", 1, *flags)["usage"]
                    # user, \n, h, i | end | \n | start | assistant (with "an" merged), \n: 2 + 7 + 1 + 1 + 9 beside BOS
                    rest = 20 if flags[0] == "-p" else 1
                    self.assertEqual(usage["prompt_tokens"] - rest, expected, (model, flags))

    def test_field_case_7_null_content_beside_a_call(self):
        contexts = json.loads((TEMPLATES / "conversations.json").read_text(encoding="utf-8"))
        context = contexts["tool-call-null"]
        self.assertEqual([m["role"] for m in context["messages"][1:3]], ["assistant", "tool"])
        self.assertIsNone(context["messages"][1]["content"])
        request = self.file("request.json", context)
        calls = {"Qwen-Qwen2.5-7B-Instruct": '{"name": "get_weather", "arguments": {"place": "Zürich", "days": 2}}',
                 "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": '"arguments": {"place": "Zürich", "days": 2}',
                 "meta-llama-Llama-3.2-3B-Instruct": '{"name": "get_weather", "parameters": {"place": "Zürich", "days": 2}}',
                 "mistralai-Mistral-Nemo-Instruct-2407": '"name": "get_weather", "arguments": {"place": "Zürich", "days": 2}'}
        for name, call in calls.items():
            model = self.folder / f"{name}.gguf"
            source = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
            tiny_gguf.vocabulary_alone(model, tiny_gguf.Vocabulary(), source)
            text = self.out("template", "-m", model, "--messages", request, "--eos-token", "</s>", "--now", "1783242487",
                            env={"TZ": "UTC"})
            goldens = json.loads((TEMPLATES / "goldens" / f"{name}.json").read_text(encoding="utf-8"))
            self.assertEqual(text, goldens["tool-call-null"], name)
            self.assertIn(call, text, name)
            self.assertNotIn("None", text, name)

    def test_field_case_8_tools_reach_the_prompt_byte_for_byte(self):
        tools = [{"type": "function", "function": {
            "name": "f", "description": "a > b & c's é <tag>", "parameters": {"b": 1, "a": [True, None, 1.5], "c": {}}}}]
        source = self.folder / "tools.jinja"
        source.write_text("{{ tools | tojson }}|{{ messages[0].content | tojson }}|{{ tools | tojson(indent=2) }}")
        messages, tools_file = self.folder / "messages.json", self.folder / "tools.json"
        messages.write_text(json.dumps([{"role": "user", "content": "it's > & é"}]))
        tools_file.write_text(json.dumps(tools))
        got = self.out("template", source, "--messages", messages, "--tools", tools_file)
        # Hugging Face's tojson is json.dumps with ensure_ascii off: no HTML entities, keys in their own order.
        expected = "|".join((json.dumps(tools, ensure_ascii=False), json.dumps("it's > & é", ensure_ascii=False),
                             json.dumps(tools, ensure_ascii=False, indent=2)))
        self.assertEqual(got, expected)

    def test_field_case_9_two_user_turns_in_a_row(self):
        message = "Conversation roles must alternate user/assistant/user/assistant/..."
        alternating = self.model("alternating", tiny_gguf.chain, tiny_gguf.alphabet(), template=tiny_gguf.ALTERNATING)
        gemma = self.folder / "gemma.gguf"
        source = (TEMPLATES / "google-gemma-2-2b-it.jinja").read_text(encoding="utf-8")
        tiny_gguf.vocabulary_alone(gemma, tiny_gguf.Vocabulary(), source)
        messages = self.file("twice.json", [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}])
        for model in (alternating, gemma):
            self.assertIn(message, self.refused(2, "template", "-m", model, "--messages", messages))
        self.assertIn(message, self.refused(2, "run", "-m", alternating, "--system", "s", "-p", "hi"))


class Answers(Case):
    def test_field_case_6_any_of_three_end_tokens(self):
        # Names that nobody knows: only the files say that they end an answer.
        control = ["<one>", "<two>", "<three>", "<four>", "<s>", "<|im_start|>", "<|im_end|>"]
        vocab = tiny_gguf.Vocabulary(control, end="<three>")
        for end in control[:4]:
            follow = {**tiny_gguf.alphabet(end), end: "!", "!": "?", "?": "<three>"}
            gguf = self.model(end[1:-1], tiny_gguf.chain, follow, vocab=vocab)
            folder = self.directory(gguf, end[1:-1])
            tiny_hf.edit_json(folder / "generation_config.json", eos_token_id=[vocab.ids["<one>"], vocab.ids["<two>"]])
            tiny_hf.edit_json(folder / "config.json", eos_token_id=None)
            self.assertEqual(json.loads((folder / "tokenizer_config.json").read_text())["eos_token"], "<three>")
            back = self.folder / f"{end[1:-1]}-back.gguf"
            self.out("convert", folder, back, "--type", "f32")
            for model in (folder, back):
                answer = self.json("run", "-m", model, "-p", "hi", "--json")
                self.assertEqual(answer["text"], ALPHABET + ("" if end != "<four>" else "!?"), (model, end))
                self.assertEqual(answer["finish_reason"], "stop")
                self.assertEqual(self.out("run", "-m", model, "-p", "hi"), answer["text"] + "\n")

    def pieces(self, *args):
        """Each of the writes to stdout: a packet of its own."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            process = subprocess.Popen([harness.BIN, *map(str, args)], stdout=theirs,
                                       env=harness.clean_environment(**self.env))
            theirs.close()
            out = []
            while piece := ours.recv(1 << 16):
                out.append(piece)
            self.assertEqual(process.wait(), 0)
        return out

    def test_field_case_11_whole_characters(self):
        # Pieces and bytes in turn: 你 and 🙂 are tokens, é, 😀 and 好 come a byte at a time.
        vocab = tiny_gguf.SentencePiece(["\u4f60", "\U0001f642", "!"])
        texts = {"whole": "é\u4f60\U0001f600\u597d\U0001f642!", "cut": "!é\u4f60"}
        for name, text in texts.items():
            ids = vocab.spell(text)
            if name == "cut":                                          # ends within 😀
                ids += [vocab.ids[f"<0x{byte:02X}>"] for byte in "\U0001f600".encode()[:3]]
                text += "\ufffd"
            follow = {vocab.ids["<0x0A>"]: ids[0], **dict(zip(ids, ids[1:])), ids[-1]: vocab.end}
            model = self.model(name, tiny_gguf.chain, follow, vocab=vocab)
            answer = self.json("run", "-m", model, "-p", "hi", "--json")
            self.assertEqual((answer["tokens"], answer["text"]), (ids, text))
            pieces = self.pieces("run", "-m", model, "-p", "hi")
            self.assertEqual([piece.decode("utf-8") for piece in pieces], [*text, "\n"])

    def test_field_case_11_byte_level(self):
        text = "é\u4f60\U0001f600"
        model = self.model("unicode", tiny_gguf.chain, tiny_gguf.sentence(text))
        self.assertEqual([piece.decode("utf-8") for piece in self.pieces("run", "-m", model, "-p", "hi")], [*text, "\n"])
        self.assertEqual(self.json("run", "-m", model, "-p", "hi", "--json")["text"], text)

    def test_field_case_26_rows_without_a_token_and_a_token_without_a_row(self):
        padded = self.model("padded", tiny_gguf.chain, tiny_gguf.alphabet(), padded_rows=47)
        tokens = len(tiny_gguf.Vocabulary())
        for model in (padded, self.directory(padded, "padded-hf")):
            self.assertEqual(self.out("run", "-m", model, "-p", "hi"), ALPHABET + "\n")
            # As likely as can be, and never chosen.
            wild = self.json("run", "-m", model, "-p", "hi", "-n", 100, "--temp", 50, "--top-k", 0, "--top-p", 1, "--min-p", 0,
                             "--ignore-eos", "--seed", 1, "--json")["tokens"]
            self.assertEqual((len(wild), max(wild) < tokens), (100, True))
            self.assertGreater(len(set(wild)), 50)
        short = self.model("short", tiny_gguf.chain, tiny_gguf.alphabet(), missing_rows=1,
                           **{"tokenizer.ggml.bos_token_id": None}, template="{{ messages[0]['content'] + '\\n' }}")
        self.assertEqual(self.out("run", "-m", short, "-p", "hi"), ALPHABET + "\n")
        error = self.refused(2, "run", "-m", short, "--raw", "-p", "<s>x", "--log-level", "error")
        self.assertIn("<s>", error)


class Damage(Case):
    def test_field_case_22_cut_files(self):
        whole = pathlib.Path(self.random()).read_bytes()
        tensors = self.json("inspect", self.random(), "--json")["tensors"]
        end = {}
        for name in (tensor["name"] for tensor in tensors):            # the header's entry: name, dimensions, type, offset
            at = whole.index(tiny_gguf.written(name)) + len(tiny_gguf.written(name))
            count = int.from_bytes(whole[at:at + 4], "little")
            dims = [int.from_bytes(whole[at + 4 + 8 * i:at + 12 + 8 * i], "little") for i in range(count)]
            end[name] = int.from_bytes(whole[at + 8 + 8 * count:at + 16 + 8 * count], "little") + 4 * math.prod(dims)
        start = len(whole) - max(end.values())
        start -= start % 32 and 32 - start % 32                         # data are padded to 32 at the end, too
        for cut, size in (("byte", len(whole) - 1), ("page", len(whole) - 4096), ("half", len(whole) // 2)):
            path = self.folder / f"cut-{cut}.gguf"
            path.write_bytes(whole[:size])
            lost = {name for name, last in end.items() if start + last > size}
            self.assertTrue(lost, cut)
            for command in (("run", "-m", path, "-p", "hi"), ("convert", path, self.folder / "out.gguf", "--type", "f16")):
                error = self.refused(1, *command)
                self.assertIn(path.name, error)
                self.assertTrue(any(f"'{name}'" in error or f" {name} " in error for name in lost), (cut, error, lost))

    def test_field_case_23_shards_come_and_go(self):
        model = self.random()
        folder = self.directory(model, "shards", "--max-shard-size", "60KB")
        shards = sorted(folder.glob("*.safetensors"))
        self.assertGreater(len(shards), 2)
        expected = self.tokens(model)
        self.assertEqual(self.tokens(folder), expected)
        # A stray shard with tensors of the same names: the index does not know it.
        stray = folder / "model-00009-of-00009.safetensors"
        tensors = tiny_hf.read_safetensors(shards[0])
        stray.write_bytes(tiny_hf.safetensors({name: (t, shape, bytes(len(raw))) for name, (t, shape, raw) in tensors.items()}))
        done = self.lithe("run", "-m", folder, "--raw", "-p", "hello", "-n", 12, "--temp", 0, "--ignore-eos", "--precision",
                          "f32", "-ctk", "f32", "--json")
        self.assertEqual(json.loads(done.stdout)["tokens"], expected)
        self.assertIn(f"{stray.name} is no part of the model and ignored", done.stderr)
        stray.unlink()
        for shard in (shards[0], shards[-1]):
            kept = shard.read_bytes()
            shard.unlink()
            self.assertIn(f"{shard.name} is missing", self.refused(1, "run", "-m", folder, "-p", "hi"))
            shard.write_bytes(kept)
        tensors.pop(sorted(tensors)[0])
        shards[0].write_bytes(tiny_hf.safetensors(tensors))
        self.assertRegex(self.refused(1, "run", "-m", folder, "-p", "hi"), f"{shards[0].name} holds no tensor")


class Heads(Case):
    """Case 24. GGUF has no flag for it: a head that is not there is the embedding. config.json has one."""

    def answer(self, model):
        done = self.lithe("run", "-m", model, "-p", "hello", "-n", 12, "--temp", 0, "--ignore-eos", "--json",
                          "--log-level", "info")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["tokens"], done.stderr

    def test_field_case_24_redundant_head_is_shared(self):
        tied = self.model("tied", tiny_gguf.random_model, tied=True)
        repeated = self.model("repeated", tiny_gguf.random_model, tied=True, head="repeated")
        different = self.model("different", tiny_gguf.random_model, tied=True, head="different")
        (expected, said), (got, told) = self.answer(tied), self.answer(repeated)
        self.assertEqual(got, expected)
        self.assertNotIn("output.weight", said)
        self.assertIn("output.weight repeats token_embd.weight", told)
        self.assertNotEqual(self.answer(different)[0], expected)      # a head of its own is used, never ignored

    def test_field_case_24_missing_tensors_are_named(self):
        for name in ("token_embd.weight", "output_norm.weight", "blk.1.attn_q.weight"):
            model = self.model("without-" + name, tiny_gguf.random_model, without=name)
            self.assertIn(name, self.refused(1, "run", "-m", model, "-p", "hi"))

    def said(self, model):
        done = self.lithe("run", "-m", model, "-p", "hello", "-n", 12, "--temp", 0, "--ignore-eos", "--json",
                          "--log-level", "warning")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["tokens"], done.stderr

    def test_field_case_24_config_json_ties(self):
        tied = self.model("tied", tiny_gguf.random_model, tied=True)
        folder = self.directory(tied, "tied-hf")
        self.assertTrue(json.loads((folder / "config.json").read_text())["tie_word_embeddings"])
        path = folder / "model.safetensors"
        tensors = tiny_hf.read_safetensors(path)
        embedding = tensors["model.embed_tokens.weight"]
        expected = self.answer(tied)[0]
        self.assertEqual(self.said(folder), (expected, ""))
        path.write_bytes(tiny_hf.safetensors({**tensors, "lm_head.weight": embedding}))
        tokens, said = self.answer(folder)
        self.assertEqual(tokens, expected)
        self.assertIn("lm_head.weight repeats model.embed_tokens.weight: one copy is kept", said)
        self.assertEqual(self.said(folder), (expected, ""))             # nothing to warn of
        other = (*embedding[:2], bytes(reversed(embedding[2])))
        path.write_bytes(tiny_hf.safetensors({**tensors, "lm_head.weight": other}))
        tokens, warning = self.said(folder)
        self.assertEqual(tokens, expected)
        self.assertEqual(warning.count("\n"), 1, warning)
        self.assertIn("lm_head.weight differs from the embedding and is not used", warning)

    def test_field_case_24_config_json_does_not_tie(self):
        untied = self.model("untied", tiny_gguf.random_model)
        folder = self.directory(untied, "untied-hf")
        self.assertFalse(json.loads((folder / "config.json").read_text())["tie_word_embeddings"])
        path = folder / "model.safetensors"
        tensors = tiny_hf.read_safetensors(path)
        self.assertEqual(self.said(folder)[0], self.answer(untied)[0])
        head = tensors.pop("lm_head.weight")
        path.write_bytes(tiny_hf.safetensors(tensors))
        self.assertIn("lacks the tensor lm_head.weight", self.refused(1, "run", "-m", folder, "-p", "hi"))
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]  # the same bytes, stated as its own
        path.write_bytes(tiny_hf.safetensors(tensors))
        self.assertEqual(self.answer(folder)[0], self.answer(self.model("tied-alike", tiny_gguf.random_model, head=None,
                                                                        without="output.weight"))[0])
        self.assertNotEqual(head, tensors["lm_head.weight"])


def forward(weights, ids, heads, kv_heads, head_dim, rotated, base=10000.0):
    """The logits of the last id, one layer, by the book and in Python's doubles."""
    def norm(x):
        scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + 1e-5)
        return [v * scale for v in x]

    def product(name, x):
        matrix, n = weights[name], len(x)
        return [sum(map(operator.mul, matrix[i:i + n], x)) for i in range(0, len(matrix), n)]

    def rotate(x, position):
        out = list(x)
        for head in range(0, len(x), head_dim):
            for i in range(rotated // 2):
                angle = position * base ** (-2 * i / rotated)
                a, b = x[head + 2 * i], x[head + 2 * i + 1]
                out[head + 2 * i] = a * math.cos(angle) - b * math.sin(angle)
                out[head + 2 * i + 1] = a * math.sin(angle) + b * math.cos(angle)
        return out

    hidden = len(weights["output_norm.weight"])
    keys, values = [], []
    for position, token in enumerate(ids):
        x = weights["token_embd.weight"][token * hidden:(token + 1) * hidden]
        h = norm(x)
        keys.append(rotate(product("blk.0.attn_k.weight", h), position))
        values.append(product("blk.0.attn_v.weight", h))
    q, mixed = rotate(product("blk.0.attn_q.weight", h), len(ids) - 1), []
    for head in range(heads):
        at, kv = head * head_dim, head // (heads // kv_heads) * head_dim
        scores = [sum(map(operator.mul, q[at:at + head_dim], k[kv:kv + head_dim])) / math.sqrt(head_dim) for k in keys]
        weight = [math.exp(s - max(scores)) for s in scores]
        mixed += [sum(w * v[kv + i] for w, v in zip(weight, values)) / sum(weight) for i in range(head_dim)]
    x = list(map(operator.add, x, product("blk.0.attn_output.weight", mixed)))
    h = norm(x)
    gate, up = product("blk.0.ffn_gate.weight", h), product("blk.0.ffn_up.weight", h)
    x = list(map(operator.add, x, product("blk.0.ffn_down.weight", [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)])))
    return product("output.weight", norm(x))


class HeadDim(Case):
    def test_field_case_25_the_explicit_head_dim_wins(self):
        # hidden 640 over 4 heads would be 160.
        shape = dict(hidden=640, layers=1, heads=4, kv_heads=2, ffn=32, head_dim=256)
        path = self.folder / "wide-heads.gguf"
        kept = {}
        tiny_gguf.random_model(path, scale=0.06, keep=kept, **shape)
        prompt = "rope turns"
        got = self.tokens(path, prompt=prompt, n=3)
        folder = self.directory(path, "wide-heads")
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual((config["hidden_size"], config["num_attention_heads"], config["head_dim"]), (640, 4, 256))
        self.assertEqual(self.tokens(folder, prompt=prompt, n=3), got)
        vocab = tiny_gguf.Vocabulary()
        ids = self.json("tokenize", "-m", path, "--json", prompt)["ids"]
        end = [vocab.ids[t] for t in ("<|im_end|>", "<|endoftext|>")]      # --ignore-eos: never chosen
        for token in got:
            logits = {rotated: forward(kept, ids, 4, 2, 256, rotated) for rotated in (256, 160)}
            best = {r: max((i for i in range(len(vocab)) if i not in end), key=l.__getitem__) for r, l in logits.items()}
            self.assertEqual(token, best[256])
            ids.append(token)
        self.assertGreater(max(abs(a - b) for a, b in zip(logits[256], logits[160])), 0.1)   # the answer depends on it


class Converting(Case):
    def same_as_dequantised(self, model):
        """What the file's codes say and what the kernels make of them are the same numbers, so the same answer."""
        plain = pathlib.Path(str(model) + ".f32.gguf")
        self.out("convert", model, plain, "--type", "f32")
        self.assertEqual(self.tokens(model), self.tokens(plain))

    def test_field_case_28_576_by_k_quants_of_256(self):
        model = self.model("odd", tiny_gguf.random_model, hidden=576, heads=9, kv_heads=3, ffn=256, layers=1)
        expected = {"q2_k": ("Q4_0", 4.5), "q3_k": ("Q4_0", 4.5), "q4_k": ("Q5_0", 5.5), "q5_k": ("Q5_1", 6.0),
                    "q6_k": ("Q8_0", 8.5), "iq4_xs": ("IQ4_NL", 4.5), "tq1_0": ("Q4_0", 4.5), "tq2_0": ("Q4_0", 4.5)}
        for target, (instead, bits) in expected.items():
            out = self.folder / f"odd.{target}.gguf"
            tensors = {t["name"]: t for t in self.json("convert", model, out, "--type", target, "--json")["tensors"]}
            odd, even = tensors["blk.0.attn_q.weight"], tensors["blk.0.ffn_down.weight"]      # rows of 576 and of 256
            self.assertEqual((odd["to"], odd["bits_per_weight"], odd["fallback_for"]), (instead, bits, target.upper()))
            self.assertEqual((even["to"], even.get("fallback_for")), (target.upper(), None))
            for tensor in tensors.values():
                self.assertEqual(tensor["bits_per_weight"], 8 * tensor["bytes"] / math.prod(tensor["shape"]), tensor)
            if target in ("q4_k", "q6_k", "iq4_xs"):
                self.same_as_dequantised(out)

    def test_field_case_28_192_by_blocks_of_32_and_of_256(self):
        model = self.model("narrow", tiny_gguf.random_model, hidden=192, heads=3, kv_heads=3, ffn=160, layers=1)
        for target, odd in (("q8_0", None), ("q4_0", None), ("q4_k", "Q4_K")):
            out = self.folder / f"narrow.{target}.gguf"
            report = self.json("convert", model, out, "--type", target, "--json")
            self.assertEqual({t.get("fallback_for") for t in report["tensors"] if len(t["shape"]) == 2 and
                              t["name"].startswith("blk")}, {odd})
            self.same_as_dequantised(out)


if __name__ == "__main__":
    harness.main()
