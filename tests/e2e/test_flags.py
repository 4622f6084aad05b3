import shutil

import harness


class Flags(harness.Case):
    def run_json(self, *args, **kwargs):
        return self.json("run", "-m", self.alphabet(), "-p", "hi", "--json", *args, **kwargs)

    def length(self, *args, **kwargs):
        return len(self.run_json(*args, **kwargs)["tokens"])

    def config(self, text):
        path = self.folder / "lithe.conf"
        path.write_text(text)
        return path

    def test_flag_over_environment_over_file(self):
        config = self.config("# comment\n\nmax-tokens = 3\n")
        self.assertEqual(self.length("--config", config), 3)
        self.assertEqual(self.length(env={"LITHE_CONFIG": str(config)}), 3)
        self.assertEqual(self.length("--config", config, env={"LITHE_MAX_TOKENS": "5"}), 5)
        self.assertEqual(self.length("--config", config, "-n", "7", env={"LITHE_MAX_TOKENS": "5"}), 7)
        self.assertEqual(self.length("--config", config, "-n", "7"), 7)

    def test_sections_aliases_and_switches(self):
        config = self.config('[run]\nn_predict = 4\nstop = "C"\n[eval]\nctx = 9\n')
        self.assertEqual(self.run_json("--config", config)["text"], "AB")
        config = self.config("kv-cache = false\nmax_tokens = 2\n")
        self.assertEqual(self.length("--config", config), 2)
        self.assertEqual(self.length("-n", "40", env={"LITHE_IGNORE_EOS": "1"}), 40)
        self.assertEqual(self.length("-n", "40", env={"LITHE_IGNORE_EOS": "0"}), 26)
        self.assertEqual(self.length("-n", "2", env={"LITHE_NO_KV_CACHE": "1"}), 2)
        self.assertEqual(self.out("run", "-p", "hi", "-n", "2", env={"LITHE_MODEL": self.alphabet()}), "AB\n")

    def test_bad_sources_are_named(self):
        base = ["run", "-m", self.alphabet(), "-p", "hi"]
        self.assertIn("LITHE_TOP_K", self.refused(2, *base, env={"LITHE_TOP_K": "many"}))
        self.assertIn("lithe.conf", self.refused(2, *base, "--config", self.config("top-k = many")))
        self.assertIn("lithe.conf:2", self.refused(2, *base, "--config", self.config("\njust words")))
        error = self.refused(2, *base, "--config", self.config("top-q = 1"))
        self.assertIn("the nearest is --top-", error)
        self.assertIn("[serve-all]", self.refused(2, *base, "--config", self.config("[serve-all]\na = 1")))
        self.assertIn("absent.conf", self.refused(1, *base, "--config", "absent.conf"))

    def test_peers_spellings(self):
        for flags in (["--temp", "0"], ["--repeat-penalty", "1.1"], ["--ctx-size", "64"], ["-c", "64"], ["--n-predict", "5"],
                      ["-ctk", "q8_0"], ["-ctv", "f16"], ["-b", "64"], ["-ub", "16"], ["--typical", "0.9"], ["-s", "3"],
                      ["--logit-bias", "65=5"], ["-l", "65+5"], ["-sys", "Be brief."]):
            self.assertEqual(self.lithe("run", "-m", self.alphabet(), "-p", "hi", *flags).returncode, 0, flags)

    def test_unknown_flags_name_the_nearest(self):
        base = ["run", "-m", self.alphabet(), "-p", "hi"]
        for flag, nearest in (("-ngl", "--threads"), ("--n-gpu-layers", "--threads"), ("--temprature", "--temperature"),
                              ("--gpu-memory-utilization", "--kv-cache-memory"), ("--top_p", "--top-p"),
                              ("--flash-attn", "--attention"), ("-fa", "--attention"), ("--mirostat", "--typical-p"),
                              ("--repetition_penalty=1.2", "--repetition-penalty")):
            self.assertIn(nearest, self.refused(2, *base, flag, "99"), flag)
        self.assertIn("one argument too many", self.refused(2, *base, "extra"))

    def test_bad_values(self):
        base = ["run", "-m", self.alphabet(), "-p", "hi"]
        for flags, words in ((["--temperature", "-1"], ["temperature", "[0, 100]"]), (["--temp", "nan"], ["temperature"]),
                             (["--temperature", "1e6"], ["temperature", "[0, 100]"]), (["--top-p", "-1"], ["top_p", "(0, 1]"]),
                             (["--top-k", "-5"], ["--top-k", "-5"]), (["--min-p", "2"], ["min_p"]),
                             (["--logit-bias", "265=1"], ["265"]), (["--logit-bias", "AI=1"], ["AI"]),
                             (["--logit-bias", "1=1e9"], ["[-100, 100]"]), (["--kv-cache-dtype", "q9"], ["q9", "q8_0"]),
                             (["--attention", "fast"], ["flash"]), (["--kv-cache-memory", "lots"], ["lots"]),
                             (["--stop", ""], ["empty"]), (["--max-num-batched-tokens", "0"], ["max-num-batched-tokens"])):
            done = self.lithe(*base, *flags)
            self.assertEqual(done.returncode, 2, flags)
            self.assertEqual(done.stdout, "", flags)
            for word in words:
                self.assertIn(word, done.stderr, flags)

    def test_help_and_usage(self):
        for command in ("run", "chat", "bench", "eval"):
            text = self.out(command, "--help")
            self.assertIn("Example", text)
            self.assertIn("lithe " + command, text)
        self.assertIn("run", self.out("--help"))
        self.assertRegex(self.out("--version"), r"^\d+\.\d+\.\d+\n$")

    def test_missing_model(self):
        error = self.refused(1, "run", "-p", "hi")
        self.assertIn("scripts/run.sh", error)
        unreadable = {"XDG_CACHE_HOME": "/" + "x" * 5000}        # stat() fails, and not with "no such file"
        self.assertIn("no model given", self.refused(1, "run", "-p", "hi", env=unreadable))
        self.assertIn("no/such.gguf", self.refused(1, "run", "-m", "no/such.gguf", "-p", "hi"))
        cache = self.folder / "home/.cache/lithe/models"
        cache.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.alphabet(), cache / "abc.gguf")
        self.assertEqual(self.out("run", "-m", "abc", "-p", "hi", "-n", "2"), "AB\n")   # a name in the cache
        (cache / "abc.gguf").unlink()


if __name__ == "__main__":
    harness.main()
