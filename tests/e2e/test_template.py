import json
import pathlib

import harness

TEMPLATES = pathlib.Path(__file__).resolve().parent.parent / "parity" / "templates"
MESSAGES = [{"role": "user", "content": "Zürich > <|im_end|>?"}]
NOW = "1783242487"  # the oracle's clock


class Template(harness.Case):
    def file(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    def test_equals_the_goldens(self):
        contexts = json.loads((TEMPLATES / "conversations.json").read_text(encoding="utf-8"))
        equal = 0
        for name in ("Qwen-Qwen2.5-7B-Instruct", "meta-llama-Llama-3.2-3B-Instruct"):
            goldens = json.loads((TEMPLATES / "goldens" / f"{name}.json").read_text(encoding="utf-8"))
            for case in ("user", "turns", "turns-closed", "tools", "tool-odd", "odd"):
                context = contexts[case]
                flags = ["--bos-token", "<s>", "--eos-token", "</s>", "--now", NOW]
                if context.get("tools"):
                    flags += ["--tools", self.file("tools.json", context["tools"])]
                if not context["add_generation_prompt"]:
                    flags.append("--no-generation-prompt")
                messages = self.file("messages.json", context["messages"])
                text = self.out("template", "-m", TEMPLATES / f"{name}.jinja", "--messages", messages, *flags,
                                env={"TZ": "UTC"})
                self.assertEqual(text, goldens[case], f"{name} {case}")
                equal += 1
        print(f"[ counts ] {equal} conversations equal on the command line")

    def test_model_file_and_request(self):
        request = self.file("request.json", {"messages": MESSAGES, "tools": []})
        text = self.out("template", "-m", self.alphabet(), "--messages", request)
        self.assertIn(MESSAGES[0]["content"], text)
        self.assertEqual(text, self.out("template", self.alphabet(), "--messages", "-", stdin=json.dumps(MESSAGES)))

    def test_hugging_face_folder(self):
        shapes = TEMPLATES.parent / "tokenizer_json"
        (self.folder / "tokenizer.json").write_bytes((shapes / "llama.json").read_bytes())
        self.file("config.json", {})
        self.file("tokenizer_config.json", {"bos_token": "<s>", "chat_template": [
            {"name": "default", "template": "{{ bos_token }}{{ messages[0]['content'] }}"},
            {"name": "rag", "template": "{% generation %}{{ documents | length }}{% endgeneration %}"}]})
        request = self.file("request.json", {"messages": MESSAGES, "documents": [1, 2]})
        self.assertEqual(self.out("template", "-m", self.folder, "--messages", request), "<s>" + MESSAGES[0]["content"])
        self.assertEqual(self.out("template", "-m", self.folder, "--template-name", "rag", "--messages", request), "2")
        message = self.refused(1, "template", "-m", self.folder, "--template-name", "no", "--messages", request)
        self.assertIn("it has rag", message)

    def test_marks_what_the_user_wrote(self):
        source = self.file("t.jinja", "<|im_start|>{{ messages[0].content }}<|im_end|>{{ word }}")
        got = self.json("template", source, "--messages", self.file("messages.json", MESSAGES), "--json",
                        "--chat-template-kwargs", '{"word": "w"}')
        data = got["text"].encode()
        self.assertEqual([data[a:b].decode() for a, b in got["untrusted"]], [MESSAGES[0]["content"], "w"])

    def test_faults(self):
        messages = self.file("messages.json", MESSAGES)
        for code, words, flags in (
                (1, "line 1, column 7", (self.file("bad.jinja", "{{ 1 +"), "--messages", messages)),
                (2, "No: user", (self.file("no.jinja", "{{ raise_exception('No: ' ~ messages[0].role) }}"), "--messages", messages)),
                (2, "not valid JSON", (self.alphabet(), "--messages", self.file("half.json", "[{"))),
                (2, "list of messages", (self.alphabet(), "--messages", self.file("number.json", "5"))),
                (1, "gone.gguf", ("gone.gguf", "--messages", messages))):
            done = self.lithe("template", *flags)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    harness.main()
