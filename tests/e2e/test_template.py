import json
import pathlib
import shutil
import tempfile

import harness
import tiny_gguf

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

    def directory(self, **files):
        """A folder with a vocabulary and these texts (by their names, __ for / and _DOT_ for the dot)."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        shutil.copy(TEMPLATES.parent / "tokenizer_json" / "llama.json", folder / "tokenizer.json")
        (folder / "config.json").write_text("{}")
        for name, value in files.items():
            path = folder / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return folder

    def test_each_template_from_wherever_a_directory_keeps_it(self):
        contexts = json.loads((TEMPLATES / "conversations.json").read_text(encoding="utf-8"))
        cases = ("tool-call-null", "list-content", "two-users-closed")
        requests = {case: self.file(f"{case}.json", contexts[case]) for case in cases}
        equal = errors = 0
        for number, path in enumerate(sorted(TEMPLATES.glob("*.jinja"))):
            source = path.read_bytes().decode("utf-8")
            goldens = json.loads((TEMPLATES / "goldens" / f"{path.stem}.json").read_text(encoding="utf-8"))
            other = "{{ raise_exception('not this one') }}"
            places = (
                {"tokenizer_config_DOT_json": {"chat_template": source}},
                {"tokenizer_config_DOT_json": {"chat_template": [{"name": "default", "template": source},
                                                                 {"name": "rag", "template": other}]}},
                {"chat_template_DOT_jinja": source, "tokenizer_config_DOT_json": {"chat_template": other}},
                {"chat_template_DOT_json": {"chat_template": source}, "tokenizer_config_DOT_json": {"chat_template": other}},
                {"additional_chat_templates__default_DOT_jinja": source})
            vocabulary = self.folder / f"{number}.gguf"
            tiny_gguf.vocabulary_alone(vocabulary, tiny_gguf.Vocabulary(), source)
            # Each place in turn, so that every template is read from two of them and every place gets four templates or more.
            for model in (self.directory(**places[number % len(places)]), vocabulary):
                for case in cases:
                    done = self.lithe("template", "-m", model, "--messages", requests[case], "--bos-token", "<s>", "--eos-token",
                                      "</s>", "--now", NOW, env={"TZ": "UTC"})
                    golden = goldens[case]
                    if isinstance(golden, str):
                        self.assertEqual((done.returncode, done.stdout), (0, golden), (path.stem, model, case, done.stderr))
                        equal += 1
                    else:
                        self.assertEqual((done.returncode, done.stdout), (2, ""), (path.stem, model, case))
                        self.assertTrue(done.stderr.rstrip("\n").endswith(golden["message"]), (done.stderr, golden))
                        errors += 1
        print(f"[ counts ] templates of directories and vocabularies: {equal} renderings and {errors} errors equal")
        self.assertGreater(errors, 10)

    def test_named_templates(self):
        listed = {"tokenizer_config_DOT_json": {"bos_token": "<s>", "chat_template": [
            {"name": "default", "template": "{{ bos_token }}{{ messages[0]['content'] }}"},
            {"name": "tool_use", "template": "tools: {{ tools | length }}"},
            {"name": "rag", "template": "{% generation %}{{ documents | length }}{% endgeneration %}"}]}}
        filed = {"tokenizer_config_DOT_json": {"bos_token": "<s>", "chat_template": [{"name": "gone", "template": "gone"}]},
                 "chat_template_DOT_jinja": "{{ bos_token }}{{ messages[0]['content'] }}",
                 "additional_chat_templates__tool_use_DOT_jinja": "tools: {{ tools | length }}",
                 "additional_chat_templates__rag_DOT_jinja": "{{ documents | length }}",
                 "additional_chat_templates__README_DOT_md": "no template"}
        plain = self.file("request.json", {"messages": MESSAGES, "documents": [1, 2]})
        tools = self.file("tools.json", {"messages": MESSAGES, "documents": [1, 2], "tools": [{}, {}, {}]})
        for folder in (self.directory(**listed), self.directory(**filed)):
            gguf = folder / "vocabulary.gguf"
            for model in (folder, gguf):
                if model == gguf:       # the same keys as a file's
                    vocab = tiny_gguf.Vocabulary()
                    tiny_gguf.vocabulary_alone(gguf, vocab, "{{ bos_token }}{{ messages[0]['content'] }}", **{
                        "tokenizer.chat_templates": ["rag", "tool_use"], "tokenizer.chat_template.rag": "{{ documents | length }}",
                        "tokenizer.chat_template.tool_use": "tools: {{ tools | length }}"})
                render = lambda request, *flags: self.out("template", "-m", model, "--messages", request, *flags)
                self.assertEqual(render(plain), "<s>" + MESSAGES[0]["content"])
                self.assertEqual(render(tools), "tools: 3")           # as Transformers chooses
                self.assertEqual(render(plain, "--tools", self.file("t.json", [])), "tools: 0")
                self.assertEqual(render(tools, "--template-name", "default"), "<s>" + MESSAGES[0]["content"])
                self.assertEqual(render(tools, "--template-name", "rag"), "2")
                message = self.refused(1, "template", "-m", model, "--template-name", "no", "--messages", plain)
                self.assertIn("no chat template is called 'no'; it has rag, tool_use", message)
        bare = self.directory(tokenizer_config_DOT_json={"chat_template": [{"name": "rag", "template": "x"}]})
        self.assertIn("no chat template without a name; it has rag", self.refused(1, "template", "-m", bare, "--messages", plain))
        self.assertIn("has no chat template\n", self.refused(1, "template", "-m", self.directory(), "--messages", plain))

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
