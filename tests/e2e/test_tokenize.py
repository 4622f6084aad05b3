import json
import pathlib
import subprocess

import harness

VOCABULARIES = pathlib.Path(__file__).resolve().parent.parent / "parity" / "tokenizer"


class Tokenize(harness.Case):
    """Vocabulary-only files, text in every way it can be given, ids back to text."""

    smollm = str(VOCABULARIES / "smollm.gguf")
    llama = str(VOCABULARIES / "llama-bpe.gguf")

    def ids(self, *args, **kwargs):
        return [int(i) for i in self.out("tokenize", *args, **kwargs).split()]

    def test_text_file_and_stdin_agree(self):
        text = "Hello 世界, it's 12345 o'clock\n\n  <|im_end|>\n"
        path = self.folder / "text.txt"
        path.write_text(text, encoding="utf-8")
        expected = self.json("tokenize", "-m", self.smollm, "--json", text)
        self.assertEqual(len(expected["pieces"]), len(expected["ids"]))
        self.assertEqual(expected["pieces"][:2] + expected["pieces"][-2:], ["H", "e", "<|im_end|>", "Ċ"])
        self.assertEqual(self.ids("-m", self.smollm, text), expected["ids"])
        self.assertEqual(self.ids("-m", self.smollm, "--file", path), expected["ids"])
        self.assertEqual(self.ids("-m", self.smollm, "--file", "-", stdin=text), expected["ids"])
        self.assertEqual(self.ids("-m", self.smollm, stdin=text), expected["ids"])

    def test_goldens(self):
        goldens = json.loads((VOCABULARIES / "goldens.json").read_text())
        for i in range(20, 40):
            self.assertEqual(self.ids("-m", self.smollm, "--", goldens["inputs"][i]), goldens["sets"]["smollm"]["ids"][i])

    def test_hugging_face_folder(self):
        shapes = VOCABULARIES.parent / "tokenizer_json"
        goldens = json.loads((shapes / "goldens.json").read_text())
        inputs = json.loads((VOCABULARIES / "goldens.json").read_text())["inputs"]
        for name in ("gemma", "bert", "odd"):
            (self.folder / "tokenizer.json").write_bytes((shapes / f"{name}.json").read_bytes())
            (self.folder / "config.json").write_text("{}")
            for i in (0, 25, 40):
                self.assertEqual(self.ids("-m", self.folder, "--", inputs[i]), goldens[name]["ids"][i])
            text = self.out("detokenize", "-m", self.folder, *map(str, goldens[name]["ids"][40]))
            self.assertEqual(text, goldens[name]["decoded"][40])

    def test_text_that_looks_like_a_flag(self):
        self.assertEqual(self.ids("-m", self.smollm, "--", "--file"), self.ids("-m", self.smollm, stdin="--file"))
        self.refused(2, "tokenize", "-m", self.smollm, "--no-such-flag")
        self.assertEqual(self.ids("-m", self.smollm, "---"), self.ids("-m", self.smollm, stdin="---"))

    def test_special_tokens(self):
        bos = self.ids("-m", self.llama, "")
        self.assertEqual(len(bos), 1)
        self.assertEqual(self.ids("-m", self.llama, "--no-special", ""), [])
        self.assertEqual(self.ids("-m", self.llama, "<|begin_of_text|>"), bos)
        self.assertGreater(len(self.ids("-m", self.llama, "--no-parse-special", "<|begin_of_text|>")), 2)

    def test_detokenize(self):
        text = "a\tb  é 你好\r\n"
        ids = self.ids("-m", self.smollm, text)
        self.assertEqual(self.json("detokenize", "-m", self.smollm, "--json", *ids)["text"], text)
        self.assertEqual(self.json("detokenize", "-m", self.smollm, "--json", stdin=str(ids))["text"], text)
        self.assertEqual(self.json("detokenize", "-m", self.smollm, "--json", ",".join(map(str, ids)))["text"], text)
        both = self.json("tokenize", "-m", self.smollm, "--json", text)
        self.assertEqual(self.json("detokenize", "-m", self.smollm, "--json", stdin=json.dumps(both))["text"], text)
        bos = self.ids("-m", self.llama, "")
        self.assertEqual(self.json("detokenize", "-m", self.llama, "--json", *bos)["text"], "<|begin_of_text|>")
        self.assertEqual(self.json("detokenize", "-m", self.llama, "--json", "--no-special", *bos)["text"], "")

    def test_exact_bytes_through_a_pipe(self):
        data = "no newline at the end: \u00e9\r\n \n\n".encode() + "\U0001f600".encode() + b" "
        run = lambda *args, stdin: subprocess.run([harness.BIN, *args], input=stdin, capture_output=True, check=True,
                                                  env=harness.clean_environment(**self.env)).stdout
        ids = run("tokenize", "-m", self.smollm, stdin=data)
        self.assertEqual(run("detokenize", "-m", self.smollm, stdin=ids), data)

    def test_faults(self):
        self.assertIn("99999", self.refused(2, "detokenize", "-m", self.smollm, "99999"))
        self.assertIn("'x1'", self.refused(2, "detokenize", "-m", self.smollm, "x1"))
        self.assertIn("99999999999", self.refused(2, "detokenize", "-m", self.smollm, "99999999999"))
        deep = 200000
        for ids in ("[" * deep + "1" + "]" * deep, "[[1]]", "[1, 2.5]", '["1"]', "7", "[-99999999999]", "[18446744073709551615]"):
            self.assertIn("token id", self.refused(2, "detokenize", "-m", self.smollm, stdin='{"ids": %s}' % ids))
        self.assertIn("nothing.txt", self.refused(1, "tokenize", "-m", self.smollm, "--file", "nothing.txt"))
        self.assertIn("not both", self.refused(2, "tokenize", "-m", self.smollm, "--file", "x", "text"))
        self.assertIn("nothing.gguf", self.refused(1, "tokenize", "-m", "nothing.gguf", "text"))


if __name__ == "__main__":
    harness.main()
