import json
import os
import pty
import re
import select
import signal
import stat
import time

import harness
import tiny_gguf

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Piped(harness.Case):
    def chat(self, *lines, flags=(), model=None):
        done = self.lithe("chat", "-m", model or self.alphabet(), *flags, stdin="\n".join(lines) + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_turns(self):
        done = self.chat("hi", "again", flags=["-n", "3"])
        self.assertEqual((done.stdout, done.stderr), ("ABC\nABC\n", ""))

    def test_input_forms(self):
        saved = self.folder / "saved.json"
        self.chat('"""', "two", 'lines"""', "one\\", "two", '"""x"""', f"/save {saved}", flags=["-n", "1"])
        users = [m["content"] for m in json.loads(saved.read_text())["messages"] if m["role"] == "user"]
        self.assertEqual(users, ["\ntwo\nlines", "one\ntwo", "x"])

    def test_commands(self):
        saved, again = self.folder / "one.json", self.folder / "two.json"
        done = self.chat("/help", "/system Be terse.", "hi", "/regen", f"/save {saved}", "/undo", "/undo", f"/load {saved}",
                         "/set temperature 0.5", "/set top-k 7", "/set", "/info", "/history", f"/save {again}", "/clear",
                         "/history", "/exit", "never read", flags=["-n", "2"])
        self.assertEqual(done.stdout, "AB\nAB\n")
        self.assertEqual(saved.stat().st_mode & 0o777, 0o600)        # a conversation is its owner's
        messages = json.loads(saved.read_text())["messages"]
        self.assertEqual([(m["role"], m["content"]) for m in messages],
                         [("system", "Be terse."), ("user", "hi"), ("assistant", "AB")])
        self.assertEqual(json.loads(again.read_text())["messages"], messages)
        for words in ("/regen", "temperature = 0.5", r"top_k +7", "context +256 tokens", "user: hi", "3 messages loaded",
                      "system: Be terse."):
            self.assertRegex(done.stderr, words)

    def test_faults_are_told_and_the_chat_goes_on(self):
        done = self.chat("/dance", "/set temperature -1", "/set heat 1", "/set top_k", "/load absent.json", "/regen", "/save",
                         "x" * 400, "hi", flags=["-n", "2"])
        self.assertEqual(done.stdout, "AB\n")
        for words in ("no command /dance", r"temperature is -1", "no option heat", "NAME VALUE", "absent.json",
                      "no answer yet", "/save FILE", "exceed"):
            self.assertRegex(done.stderr, words)

    def test_bad_conversation_files(self):
        for text in ("", "{}", "[1]", '[{"role": "user"}]', '{"messages": 3}', "[" * 100000):
            bad = self.folder / "bad.json"
            bad.write_text(text)
            self.assertIn("bad.json", self.chat(f"/load {bad}").stderr)


class Terminal:
    """A person at a terminal."""

    def __init__(self, case, *args, **env):
        self.case = case
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = harness.clean_environment(**{**case.env, "TERM": "xterm", "LC_ALL": "C.UTF-8", **env})
            os.execve(harness.BIN, [harness.BIN, "chat", *args], env)
        self.text = ""

    def expect(self, pattern, timeout=20):
        end = time.time() + timeout
        while not re.search(pattern, self.text, re.S):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.time()))
            if not ready:
                self.case.fail(f"no {pattern!r} in {self.text!r}")
            try:
                data = os.read(self.fd, 4096)
            except OSError:
                data = b""
            if not data:
                self.case.fail(f"ended without {pattern!r}: {self.text!r}")
            self.text += data.decode("utf-8", "replace")
        seen, self.text = self.text, ""
        return seen

    def type(self, text):
        os.write(self.fd, text.encode())

    def close(self, again=None):
        """The exit status. again: typed once more each second, as one does where a key got lost between two modes."""
        end = time.time() + 20
        while time.time() < end:                       # of time, not of pieces: an echo comes letter by letter
            ready, _, _ = select.select([self.fd], [], [], 1)
            if not ready:
                if again:
                    self.type(again)
                continue
            try:
                if not os.read(self.fd, 4096):
                    break
            except OSError:
                break
        else:
            os.kill(self.pid, signal.SIGKILL)
            self.case.fail("the chat did not end")
        os.close(self.fd)
        return os.waitpid(self.pid, 0)[1]


class AtATerminal(harness.Case):
    def test_conversation(self):
        t = Terminal(self, "-m", self.alphabet(), "-n", "5")
        t.expect("/help lists.*>>> ")
        t.type("hello\n")
        t.expect(r"ABCDE.*\[5 tokens, [\d.]+ tok/s; prompt (\d+) new of \1 tokens.*>>> ")
        t.type("and more\n")
        seen = t.expect(r"ABCDE.*\[5 tokens.*>>> ")
        new, all_tokens = map(int, re.search(r"prompt (\d+) new of (\d+) tokens", seen).groups())
        self.assertLess(new, all_tokens - 25)          # what was said before stays in the cache
        t.type("\x1b[A")                               # arrow up: the last line again
        t.expect("and more")
        t.type("\x01say \x05!\n")                      # ^A to the front, ^E to the end
        t.expect("ABCDE.*>>> ")
        t.type("/history\n")
        t.expect("user: say and more!.*>>> ")
        t.type("你好 é\n")
        t.expect("ABCDE.*>>> ")
        t.type("/history\n")
        t.expect("user: 你好 é.*>>> ")
        t.type("\x04")
        self.assertEqual(t.close(again="\x04"), 0)
        history = self.folder / "home/.local/state/lithe/chat_history"
        self.assertIn("and\\040more", history.read_text().replace("and more", "and\\040more"))
        self.assertEqual(stat.S_IMODE(history.stat().st_mode), 0o600)
        t = Terminal(self, "-m", self.alphabet())      # the history is there the next time
        t.expect(">>> ")
        t.type("\x1b[A\x1b[A")
        t.expect("你好")
        t.type("\x03")
        t.expect("leaves.*>>> ")
        t.type("/exit\n")
        self.assertEqual(t.close(), 0)

    def test_an_end_typed_into_an_answer_spoils_nothing(self):
        long = self.model("long", tiny_gguf.chain, {10: "A", "A": "B", "B": "A"}, context=100000)
        t = Terminal(self, "-m", long, "--no-history", "-n", "2000")
        t.expect(">>> ")
        t.type("hello\n")
        t.expect("ABAB")
        t.type("\x04")                                 # the terminal is not ours now, and keeps a NUL of it
        t.expect("tokens.*>>> ")
        t.type("\x04")
        self.assertEqual(t.close(), 0)

    def test_ctrl_c_stops_the_answer_only(self):
        endless = self.model("endless", tiny_gguf.chain, {10: "A", "A": "B", "B": "A"}, context=100000)
        home = self.folder / "elsewhere"
        t = Terminal(self, "-m", endless, "--no-history", HOME=str(home))
        t.expect(">>> ")
        for _ in range(2):
            t.type("go\n")
            t.expect("ABABAB")
            t.type("\x03")
            t.expect(r"stopped\].*>>> ")
        t.type("half a line\x03")
        t.expect("Ctrl-D or /exit leaves.*>>> ")
        t.type("/exit\n")
        self.assertEqual(t.close(), 0)
        self.assertFalse(home.exists())

    def test_multi_line(self):
        t = Terminal(self, "-m", self.alphabet(), "-n", "1", "--no-history")
        t.expect(">>> ")
        t.type("one\\\n")
        t.expect(r"\.\.\. ")
        t.type("two\n")
        t.expect("A.*>>> ")
        t.type('"""three\n')
        t.expect(r"\.\.\. ")
        t.type('four"""\n')
        t.expect("A.*>>> ")
        t.type("/history\n")
        t.expect("user: one\r?\ntwo.*user: three\r?\nfour.*>>> ")
        t.type("/quit\n")
        self.assertEqual(t.close(), 0)

    def test_terminate(self):
        t = Terminal(self, "-m", self.alphabet(), "--no-history")
        t.expect(">>> ")
        os.kill(t.pid, signal.SIGTERM)
        self.assertTrue(os.WIFSIGNALED(t.close()))


if __name__ == "__main__":
    harness.main()
