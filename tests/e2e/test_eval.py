import json
import math
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import time
import unittest

import harness
import tiny_gguf


def read_npy(path):
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    (size,) = struct.unpack("<H", data[8:10])
    header = eval(data[10:10 + size].decode(), {"__builtins__": {}})
    assert header["descr"] == "<f4" and not header["fortran_order"] and (10 + size) % 64 == 0
    rows, cols = header["shape"]
    values = struct.unpack(f"<{rows * cols}f", data[10 + size:])
    return [values[r * cols:(r + 1) * cols] for r in range(rows)]


def nll(row, target):
    top = max(row)
    return top + math.log(sum(math.exp(x - top) for x in row)) - row[target]


class Eval(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rng = random.Random(4)
        cls.words = "".join(rng.choice("abcdefgh ijkl.\n") for _ in range(700))
        cls.text = cls.folder / "text.txt"
        cls.text.write_text(cls.words)

    def logits(self, ids, model=None):
        out = self.folder / "logits.npy"
        self.out("eval", "-m", model or self.random(), "--ids", ",".join(map(str, ids)), "--logits-out", out)
        return read_npy(out)

    def tokens(self):
        data = list(self.words.encode())
        merges = {(ord("a"), ord("n")): 260, (ord("i"), ord("n")): 258}
        assert not any(pair in merges for pair in zip(data, data[1:]))     # the text has no mergeable pair
        return data

    def expected(self, protocol, ctx, bos=None):
        tokens, values = self.tokens(), []
        for begin in range(0, len(tokens) - ctx + 1, ctx):
            window = tokens[begin:begin + ctx]
            if bos is not None:
                window[0] = bos
            rows = self.logits(window)
            first = ctx // 2 if protocol == "half" else 0
            values += [nll(rows[i], window[i + 1]) for i in range(first, ctx - 1)]
        return values

    def test_protocols_by_hand(self):
        for protocol, scored in (("half", 31), ("full", 63)):
            values = self.expected(protocol, 64)
            got = self.json("eval", "-m", self.random(), "--text", self.text, "--ctx", 64, "--protocol", protocol, "--json")
            self.assertEqual(got["tokens"], len(values))
            self.assertEqual(got["tokens"], scored * (700 // 64))
            mean = sum(values) / len(values)
            self.assertAlmostEqual(got["nll_mean"], mean, places=5)
            self.assertAlmostEqual(got["ppl"], math.exp(mean), delta=1e-4 * math.exp(mean))
            spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
            self.assertAlmostEqual(got["stderr"], spread, places=5)

    def test_half_puts_bos_first_only_where_the_model_wants_it(self):
        bos = self.model("bos", tiny_gguf.random_model, **{"tokenizer.ggml.add_bos_token": True})
        with_bos = self.json("eval", "-m", bos, "--text", self.text, "--ctx", 64, "--json", "--max-chunks", 1)["nll_mean"]
        tokens = [264] + self.tokens()[:63]       # the text is tokenised with BOS, and each window begins with it
        rows = self.logits(tokens)
        values = [nll(rows[i], tokens[i + 1]) for i in range(32, 63)]
        self.assertAlmostEqual(with_bos, sum(values) / len(values), places=5)

    def test_chunks(self):
        got = self.json("eval", "-m", self.random(), "--text", self.text, "-c", 64, "--chunks", 3, "--json")
        self.assertEqual((got["windows"], got["tokens"]), (3, 93))

    def test_reference(self):
        other = self.model("other", tiny_gguf.random_model, seed=2)
        reference = self.folder / "ref"
        base = ["--text", self.text, "--ctx", 64, "--max-chunks", 4, "--json"]
        first = self.json("eval", "-m", self.random(), *base, "--save-logits", reference)
        same = self.json("eval", "-m", self.random(), *base, "--reference", reference)
        self.assertLess(abs(same["kl_mean"]), 1e-7)
        self.assertEqual((same["top1_agreement"], same["delta_nll"], same["delta_nll_stderr"]), (1.0, 0.0, 0.0))
        self.assertEqual(same["ppl"], first["ppl"])
        got = self.json("eval", "-m", other, *base, "--reference", reference)
        p, q, divergences, agree, deltas = None, None, [], 0, []
        for window in range(4):
            ids = self.tokens()[window * 64:(window + 1) * 64]
            ours, theirs = self.logits(ids, other), self.logits(ids)
            for i in range(32, 63):
                p, q = theirs[i], ours[i]
                lp = [x - nll(p, 0) - p[0] for x in p]
                lq = [x - nll(q, 0) - q[0] for x in q]
                divergences.append(sum(math.exp(a) * (a - b) for a, b in zip(lp, lq)))
                agree += p.index(max(p)) == q.index(max(q))
                deltas.append(nll(q, ids[i + 1]) - nll(p, ids[i + 1]))
        n = len(divergences)
        self.assertAlmostEqual(got["kl_mean"], sum(divergences) / n, places=4)
        self.assertAlmostEqual(got["kl_p99"], sorted(divergences)[int(0.99 * (n - 1) + 0.5)], places=3)
        self.assertAlmostEqual(got["top1_agreement"], agree / n)
        mean = sum(deltas) / n
        self.assertAlmostEqual(got["delta_nll"], mean, places=5)
        error = math.sqrt(sum((d - mean) ** 2 for d in deltas) / (n - 1) / n)
        self.assertAlmostEqual(got["delta_nll_stderr"], error, places=5)

    def test_references_that_do_not_fit(self):
        reference = self.folder / "fit"
        base = ["eval", "-m", self.random(), "--text", self.text, "--max-chunks", 2]
        self.out(*base, "--ctx", 64, "--save-logits", reference)
        self.assertIn("protocol", self.refused(2, *base, "--ctx", 64, "--protocol", "full", "--reference", reference))
        self.assertIn("windows", self.refused(2, *base, "--ctx", 32, "--reference", reference))
        self.assertIn("windows", self.refused(2, "eval", "-m", self.random(), "--text", self.text, "--ctx", 64, "--reference", reference))
        other = self.folder / "other.txt"
        other.write_text("x" * 500)
        self.assertIn("another text", self.refused(2, "eval", "-m", self.random(), "--text", other, "--max-chunks", 2,
                                                   "--ctx", 64, "--reference", reference))
        data = reference.read_bytes()
        for name, cut in (("cut", data[:len(data) // 2]), ("none", b""), ("junk", b"junk" * 100)):
            bad = self.folder / name
            bad.write_bytes(cut)
            self.refused(1, *base, "--ctx", 64, "--reference", bad)

    def test_resumes_after_a_kill(self):
        base = ["eval", "-m", self.random(), "--text", self.text, "--ctx", 16, "--json"]
        whole = self.json(*base)
        state = self.folder / "state"
        self.out(*base, "--max-chunks", 7, "--state", state)
        with open(state, "a") as file:
            file.write('{"nll":[7,12.')                         # as a kill leaves it
        done = self.lithe(*base, "--state", state)
        self.assertEqual(json.loads(done.stdout), whole)
        self.assertIn("7 windows were taken", done.stderr)
        self.assertEqual(self.json(*base, "--state", state), whole)   # nothing left to do
        self.assertIn("another run", self.refused(2, *base[:-2], "32", "--json", "--state", state))

    def test_a_state_with_other_counts_is_refused(self):
        base = ["eval", "-m", self.random(), "--text", self.text, "--ctx", 16]
        state = self.folder / "counts"
        self.out(*base, "--max-chunks", 3, "--state", state)
        lines = state.read_text().splitlines()
        window = json.loads(lines[2])
        window["nll"][0] += 1 << 40
        state.write_text("\n".join([*lines[:2], json.dumps(window), *lines[3:]]) + "\n")
        self.assertIn("window 2", self.refused(1, *base, "--state", state))

    def test_a_state_of_a_model_whose_path_is_not_utf8(self):
        model = os.fsdecode(os.fsencode(self.folder) + b"/m\xff.gguf")
        shutil.copy(self.random(), model)
        base = ["eval", "-m", model, "--text", self.text, "--ctx", 16, "--max-chunks", 3, "--json"]
        state = self.folder / "bytes"
        for _ in range(2):
            done = self.lithe(*base, "--state", state)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 windows were taken", done.stderr)

    def test_a_token_without_a_row(self):
        model = self.model("rowless", tiny_gguf.chain, {}, missing_rows=5,
                           **{"tokenizer.ggml.bos_token_id": None})        # 260 = "an" is the first without
        for words in ("b" * 15 + "an", "an" + "b" * 15):                # the last token of a window, and the first
            text = self.folder / "rowless.txt"
            text.write_text(words)
            for protocol in ("half", "full"):
                self.assertIn("token 260 ('an')", self.refused(2, "eval", "-m", model, "--text", text, "--ctx", 16, "--log-level", "error",
                                                               "--protocol", protocol))

    def test_ctrl_c_keeps_the_state(self):
        state = self.folder / "interrupted"
        long = self.folder / "long.txt"
        long.write_text(self.words * 200)
        command = ["eval", "-m", self.random(), "--text", str(long), "--ctx", "64", "--state", str(state)]
        process = subprocess.Popen([harness.BIN, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=harness.clean_environment(**self.env))
        for _ in range(500):
            if state.exists() and state.read_text().count("\n") > 2:
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (-signal.SIGINT, b""))
        self.assertIn(b"goes on from there", err)
        self.assertGreater(state.read_text().count("\n"), 2)

    def test_bad_usage(self):
        self.assertIn("--text", self.refused(2, "eval", "-m", self.random()))
        self.assertIn("--logits-out", self.refused(2, "eval", "-m", self.random(), "--ids", "1,2"))
        self.assertIn("265", self.refused(2, "eval", "-m", self.random(), "--ids", "1,265", "--logits-out", self.folder / "x.npy"))
        self.refused(2, "eval", "-m", self.random(), "--ids", "1,x", "--logits-out", self.folder / "x.npy")
        self.assertFalse((self.folder / "x.npy").exists())
        self.assertIn("less than one window", self.refused(2, "eval", "-m", self.random(), "--text", self.text, "--ctx", 4096))
        self.assertIn("--state", self.refused(2, "eval", "-m", self.random(), "--text", self.text, "--state", "s", "--save-logits", "r"))


if __name__ == "__main__":
    harness.main()
