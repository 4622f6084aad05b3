import os
import resource
import subprocess

import harness

COMMANDS = {name: [] for name in ("run", "chat", "bench", "eval", "inspect", "tokenize", "detokenize")}
COMMANDS |= {"convert": ["a", "b", "--type", "f16"], "template": ["a", "--messages", "b"]}      # what they need


class Usage(harness.Case):
    """Mistakes on the command line: one line on stderr that says what, where and what to do. refused() checks the form."""

    def start(self, *args, **kwargs):
        return subprocess.run([harness.BIN, *map(str, args)], stderr=subprocess.PIPE, text=True, timeout=120,
                              env=harness.clean_environment(**self.env), **kwargs)

    def test_every_command_names_what_it_does_not_know(self):
        for command, needed in COMMANDS.items():
            for args, says in ((["--no-such-flag"], "the nearest is --"), (["--config"], "--config needs a value"),
                               (["--config="], f"see `lithe {command} --help`"),
                               (["--log-level", "loud"], "--log-level: 'loud' must be debug,"),
                               (["--log-level", "off", "--log-level", "off"], "--log-level is given more than once")):
                self.assertIn(says, self.refused(2, command, *needed, *args), command)

    def test_no_command(self):
        self.assertIn("no command given", self.refused(2))
        self.assertIn("there is no command 'dance': the nearest is", self.refused(2, "dance"))
        self.assertIn("'dance'", self.refused(2, "dance", "run", "-p", "hi"))
        self.assertIn("--raw comes before any command", self.refused(2, "--raw", "run", "-p", "hi"))
        self.assertIn("'run\\x1b'", self.refused(2, "run\x1b"))

    def test_what_a_command_needs(self):
        for args, needs in ((["convert"], "input"), (["convert", "a"], "output"), (["convert", "a", "b"], "--type"),
                            (["template"], "--model"), (["template", "x.jinja"], "--messages")):
            self.assertIn(f"needs {needs}: see", self.refused(2, *args), args)

    def config(self, text):
        path = self.folder / "usage.conf"
        path.write_text(text)
        return path

    def test_the_environment_comes_before_the_file_under_every_name(self):
        run = ["run", "-m", self.alphabet(), "-p", "hi", "--json", "--config"]

        def tokens(config, *args, **env):
            return len(self.json(*run, self.config(config), *args, env=env)["tokens"])
        self.assertEqual(tokens("max-tokens = 3"), 3)
        for name in ("max-tokens", "n-predict"):
            for variable in ("LITHE_MAX_TOKENS", "LITHE_N_PREDICT"):
                self.assertEqual(tokens(f"{name} = 3\n[run]\n{name} = 4", **{variable: "5"}), 5, (name, variable))
                self.assertEqual(tokens(f"{name} = 3", "-n", 7, **{variable: "5"}), 7, (name, variable))
        self.assertEqual(tokens("max-tokens = 3\n[run]\nn-predict = 4"), 4)      # what is said of the command
        self.assertEqual(tokens("temperature = cold\nmax-tokens = 3", LITHE_TEMP="0"), 3)     # "cold" is not even read

    def test_required_flags_come_from_every_layer(self):
        template, messages, out = self.folder / "needed.jinja", self.folder / "needed.json", self.folder / "needed.gguf"
        template.write_text("{{ messages[0].content }}")
        messages.write_text('[{"role":"user","content":"hi"}]')
        model, given = {"LITHE_MODEL": str(template)}, {"LITHE_MESSAGES": str(messages)}
        self.assertEqual(self.out("template", "--messages", messages, env=model), "hi")
        self.assertEqual(self.out("template", template, env=given), "hi")
        self.assertEqual(self.out("template", env=model | given), "hi")
        config = self.config(f"model = {template}\n[template]\nmessages = {messages}\n")
        self.assertEqual(self.out("template", "--config", config), "hi")
        self.out("convert", self.alphabet(), out, env={"LITHE_OUTTYPE": "f16"})
        self.assertIn("`lithe template` needs --messages: see", self.refused(2, "template", env=model))
        self.assertIn("needs --model: see", self.refused(2, "template", "--config", self.config("messages = x")))
        self.assertIn("needs --type: see", self.refused(2, "convert", "a", "b", env={"LITHE_TYPE": ""}))
        self.assertIn("--type 'f99'", self.refused(2, "convert", self.alphabet(), out, env={"LITHE_TYPE": "f99"}))
        self.assertIn("REQUIRED", self.out("template", "--help"))

    def test_a_file_names_no_file_and_asks_for_no_help(self):
        run = ["run", "-m", self.alphabet(), "-p", "hi", "-n", "2", "--config"]
        for key in ("config", "help"):
            for section in ("", "[run]\n", "[eval]\n"):
                self.assertIn(f"usage.conf: {key} belongs on the command line", self.refused(2, *run, self.config(f"{section}{key} = x.cfg")))

    def test_missing_files_are_named(self):
        model = self.alphabet()
        for args in (["run", "-m", "a/b.gguf", "-p", "x"], ["chat", "-m", "a/b.gguf"], ["bench", "-m", "a/b.gguf"],
                     ["eval", "-m", model, "--text", "a/b.gguf"], ["convert", "a/b.gguf", "c", "--type", "f16"],
                     ["inspect", "a/b.gguf"], ["template", "a/b.gguf", "--messages", "-"],
                     ["template", model, "--messages", "a/b.gguf"], ["tokenize", "-m", "a/b.gguf", "x"],
                     ["tokenize", "-m", model, "--file", "a/b.gguf"], ["detokenize", "-m", "a/b.gguf", "1"],
                     ["run", "-m", model, "-f", "a/b.gguf"], ["run", "-m", model, "-p", "x", "--chat-template-file", "a/b.gguf"]):
            error = self.refused(1, *args)
            self.assertEqual(error.count("a/b.gguf"), 1, error)

    def test_numbers_are_decimal_and_in_range(self):
        run = ["run", "-m", self.alphabet(), "-p", "hi"]
        for flag, value, says in (("-n", "x", "'x' is no whole number"), ("-n", "1.5", "no whole number"), ("-n", "", "'' is no whole number"),
                                  ("-n", "0x10", "no whole number"), ("-n", "true", "no whole number"), ("-n", "1e3", "no whole number"),
                                  ("-n", " 5", "no whole number"), ("-n", "9" * 30, "does not fit in 64 bits"),
                                  ("-n", "-2", "--max-tokens: -2 must lie in [-1, "), ("-t", "5000", "--threads: 5000 must lie in [0, 1024]"),
                                  ("-s", "-2", "--seed: -2 must lie at least -1"), ("-s", "9" * 30, "does not fit"),
                                  ("--min-tokens", "-1", "at least 0"), ("-c", "-1", "at least 0"), ("-b", "0", "in [1, 1048576]"),
                                  ("--temp", "warm", "'warm' is no number"), ("--temp", "1,5", "no number"), ("--temp", "0x1", "no number"),
                                  ("--top-p", "1e999", "too large or too small"), ("--min-p", "1e-400", "too small"),
                                  ("--precision", "f64", "must be auto or f32"),
                                  ("-l", "5=1,6=2", "ID=BIAS"), ("-l", "5", "ID=BIAS"), ("-l", "9" * 30 + "=1", "ID=BIAS")):
            self.assertIn(says, self.refused(2, *run, flag, value), (flag, value))
        self.assertEqual(self.out(*run, "-n", "010"), self.out(*run, "-n", "10"))     # not octal
        for command, flag, value in (("eval", "--ctx", "3"), ("eval", "--chunks", "-1"), ("inspect", "--ctx", "1e3"), ("inspect", "-b", "0"),
                                     ("bench", "-r", "0"), ("template", "--now", "noon"), ("convert", "-t", "-1")):
            self.assertIn("--", self.refused(2, command, flag, value), (command, flag))

    def test_switches_are_true_or_false(self):
        run = ["run", "-m", self.alphabet(), "-p", "hi", "-n", "2"]
        for argument in ("--no-kv-cache=", "--no-kv-cache=abc", "--kv-cache=" + "9" * 20, "--raw=" + "9" * 30, "--raw=2", "--json=-1"):
            error = self.refused(2, *run, argument)
            self.assertIn("is a switch", error)
            self.assertIn(argument.split("=")[0], error)
        for argument in ("--raw=false", "--no-kv-cache=true", "--kv-cache=off", "--json=no"):
            self.assertEqual(self.out(*run, argument), "AB\n", argument)
        self.assertIn("LITHE_RAW: 'maybe'", self.refused(2, *run, env={"LITHE_RAW": "maybe"}))
        self.assertEqual(self.out(*run, env={"LITHE_RAW": "", "LITHE_TOP_K": ""}), "AB\n")      # as if they were not set
        self.assertEqual(self.out("run", "-m", self.alphabet(), "-n", "2", "-p", "--raw=maybe"), "AB\n")     # the user's words

    def test_empty_values(self):
        model = self.alphabet()
        for args, flag in ((["convert", model, "", "--type", "f16"], "output"), (["convert", "", "x", "--type", "f16"], "input"),
                           (["run", "-m", "", "-p", "hi"], "--model"), (["run", "-m", model, "-f", ""], "--file"),
                           (["run", "-m", model, "-p", "x", "--chat-template", ""], "--chat-template"), (["inspect", ""], "--model"),
                           (["bench", "-m", model, "-p", ""], "--n-prompt"), (["bench", "-m", model, "-t", ""], "--threads"),
                           (["eval", "-m", model, "--ids", ""], "--ids"), (["detokenize", "-m", model, ""], "ids"),
                           (["template", model, "--messages", ""], "--messages")):
            self.assertIn(f"{flag}: the value is empty", self.refused(2, *args), args)
        for prompt in (["-p", ""], ["--prompt="], [""]):
            self.assertIn("no prompt", self.refused(2, "run", "-m", model, *prompt, stdin="never read"))
        self.assertEqual(self.out("tokenize", "-m", model, "", stdin="never read"), "\n")

    def test_lists(self):
        model = self.alphabet()
        for flag, value in (("-p", "8,"), ("-n", ",8"), ("-d", "0,,8"), ("-npl", "1,"), ("-b", ",,"), ("-ub", "8,"), ("-t", "1,"),
                            ("-ctk", "f16,"), ("--attention", "flash,,naive"), ("-m", model + ",")):
            base = [] if flag == "-m" else ["-m", model]
            self.assertIn("an item is missing", self.refused(2, "bench", *base, flag, value), flag)
        self.assertIn("-p: 'x' is no whole number", self.refused(2, "bench", "-m", model, "-p", "8,x"))
        self.assertIn("--ids 1,,2: an item is missing", self.refused(2, "eval", "-m", model, "--ids", "1,,2", "--logits-out", "x"))
        for ids in ("1,,2", "1,", ",1", "1 2,", "[1,,2]", "[1", "[1 2]"):
            self.refused(2, "detokenize", "-m", model, stdin=ids)
        for ids in ("65 66", "65,66", "65, 66\n", "[65, 66]", '{"ids": [65, 66]}', " 65\t66 "):
            self.assertEqual(self.out("detokenize", "-m", model, stdin=ids), self.out("detokenize", "-m", model, "65", "66"), ids)

    def test_control_bytes_stay_in_one_line(self):
        self.assertIn("a\\nb\\x1b[31m", self.refused(1, "convert", "a\nb\x1b[31m", "c", "--type", "f16"))
        model, odd = self.alphabet(), "a\nb\x1b[31m\a"
        shown = "a\\nb\\x1b[31m\\x07"
        for args in (["run", "-m", odd, "-p", "x"], ["run", "-m", model, "-f", odd], ["run", "-m", model, "--config", odd],
                     ["template", model, "--messages", odd], ["inspect", odd]):
            self.assertIn(shown, self.refused(1, *args), args)
        self.assertLess(len(self.refused(1, "inspect", "\n" * 100000)), 5000)
        run = ["run", "-m", model, "-p", "hi", "--config"]
        for line in ("\x1b[2J\a", "[\x1b[2J\a]\na = 1", "\x1b[2J\a = 1"):
            error = self.refused(2, *run, self.config(line + "\n"))
            self.assertIn("\\x1b[2J\\x07", error)
            self.assertTrue(error[:-1].isprintable(), error)
        for line in ("x" * 500000, "[" + "x" * 500000 + "]\na = 1"):
            self.assertLess(len(self.refused(2, *run, self.config(line))), 400)
        (self.folder / odd).write_text("just words")
        self.assertIn(f"{shown}:1: 'just words' is not", self.refused(2, *run, self.folder / odd))
        os.mkfifo(self.folder / (odd + "p"))
        self.assertIn(f"{shown}p is a pipe", self.refused(2, "template", model, "--messages", self.folder / (odd + "p")))
        template = self.folder / "raise.jinja"
        template.write_text("{{ raise_exception('no\\nway') }}")
        self.assertEqual(self.refused(2, "template", template, "--messages", "-", stdin="[]"), "lithe: no\\nway\n")

    def test_a_pipe_is_read_from_stdin(self):
        template, messages = self.folder / "x.jinja", '[{"role":"user","content":"hi"}]'
        template.write_text("{{ messages[0].content }}")
        self.assertEqual(self.out("template", template, "--messages", "-", stdin=messages), "hi")
        end, other = os.pipe()
        try:
            done = self.start("template", template, "--messages", f"/dev/fd/{end}", pass_fds=[end])
        finally:
            os.close(end)
            os.close(other)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^lithe: --messages: /dev/fd/\d+ is a pipe: give - for the file, and the pipe as stdin\n$")
        self.assertEqual(self.out("run", "-m", self.alphabet(), "-f", "-", "-n", "2", stdin="hi"), "AB\n")

    def test_an_endless_stdin_ends(self):
        for args in (["run", "-m", self.alphabet()], ["template", self.alphabet(), "--messages", "-"]):
            with open("/dev/zero") as zero:
                done = self.start(*args, stdin=zero, stdout=subprocess.PIPE)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, "^lithe: .*stdin holds more than 64 MiB[^\n]*\n$")
        with open("/dev/zero") as zero:
            done = self.start("chat", "-m", self.alphabet(), stdin=zero, stdout=subprocess.PIPE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("a message of more than 1048576 bytes", done.stderr)

    def outputs(self):
        model = self.alphabet()
        messages = self.folder / "messages.json"
        messages.write_text('[{"role":"user","content":"hi"}]')
        return (["--help"], ["run", "--help"], ["--version"], ["run", "-m", model, "-p", "hi"], ["run", "-m", model, "-p", "hi", "--json"],
                ["inspect", model], ["inspect", model, "--json"], ["tokenize", "-m", model, "hi"], ["detokenize", "-m", model, "65"],
                ["template", model, "--messages", messages], ["convert", model, self.folder / "out.gguf", "--type", "f16"])

    def test_a_full_disk_is_an_error(self):
        for args in self.outputs():
            with open("/dev/full", "w") as full:
                done = self.start(*args, stdout=full)
            self.assertEqual(done.returncode, 1, args)
            self.assertEqual(done.stderr, "lithe: cannot write to stdout: No space left on device\n", args)

    def test_a_reader_that_has_gone_is_none(self):
        for args in self.outputs():
            end, other = os.pipe()
            os.close(end)
            done = self.start(*args, stdout=other)
            os.close(other)
            self.assertEqual((done.returncode, done.stderr), (1, ""), args)

    def test_memory_that_is_not_there(self):
        def limit(gigabytes):
            return lambda: resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))
        if self.start("--version", stdout=subprocess.DEVNULL, preexec_fn=limit(2)).returncode != 0:
            self.skipTest("a build that needs terabytes of addresses")      # AddressSanitizer
        model = self.random()
        for gigabytes, args, says in ((2, ["run", "-p", "hi", "--attention", "naive", "-b", "40000", "-c", "40000"], "--attention flash"),
                                      (2, ["bench", "-p", "40000", "-r", "1", "--attention", "naive"], "--attention flash"),
                                      (1, ["run", "-p", "hi", "-b", "1048576", "-c", "1048576", "-ctk", "q8_0"], "needs"),
                                      (2, ["run", "-p", "hi", "-t", "1024"], "--threads")):
            done = self.start(*args, "-m", model, *([] if "-t" in args else ["-t", 2]), stdout=subprocess.PIPE, preexec_fn=limit(gigabytes))
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn(says, done.stderr)
        tight = ["run", "-m", model, "-p", "hi", "-n", "4", "--temp", "0", "-t", 2]
        done = self.start(*tight, stdout=subprocess.PIPE, preexec_fn=limit(1))
        self.assertEqual((done.returncode, done.stdout), (0, self.out(*tight)), done.stderr)


if __name__ == "__main__":
    harness.main()
