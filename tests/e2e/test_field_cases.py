"""Inputs that broke engines of this kind, by their numbers; those of one sub-command alone stand in its own file."""
import json
import math
import operator
import os
import pathlib
import random
import subprocess
import tempfile

import harness
import tiny_gguf

VOCABULARIES = pathlib.Path(__file__).resolve().parent.parent / "parity" / "tokenizer"


class Tokenizing(harness.Case):
    models = [str(VOCABULARIES / f"{name}.gguf") for name in ("smollm", "llama-bpe")]

    def processor_time(self, model, file):
        """What `lithe tokenize` prints, and the processor's seconds it took, whatever else the machine does."""
        with tempfile.TemporaryFile("w+") as out:
            process = subprocess.Popen([harness.BIN, "tokenize", "-m", model, "--no-special", "--json", "--file", file],
                                       stdout=out, env=harness.clean_environment(**self.env))
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            out.seek(0)
            return json.load(out)["ids"], usage.ru_utime + usage.ru_stime

    def encode(self, model, text):
        """Ids, and the seconds they took beyond those of a run on nothing."""
        path, empty = self.folder / "text.txt", self.folder / "empty.txt"
        path.write_text(text, encoding="utf-8")
        empty.write_text("")
        ids, seconds = self.processor_time(model, path)
        return ids, max(seconds - self.processor_time(model, empty)[1], 0.0)

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
            turns = [[self.encode(model, body)[1] for body in bodies] for _ in range(7)]
            short, long = (min(times) for times in zip(*turns))
            self.assertLess(long, 5 * max(short, 0.005), model)


class Prompts(harness.Case):
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
        model = self.model("alternating", tiny_gguf.chain, tiny_gguf.alphabet(), template=tiny_gguf.ALTERNATING)
        messages = self.folder / "twice.json"
        messages.write_text(json.dumps([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]))
        error = self.refused(2, "template", "-m", model, "--messages", messages)
        self.assertIn("Conversation roles must alternate user/assistant/user/assistant/...", error)


class Heads(harness.Case):
    """Case 24. GGUF has no flag for it: a head that is not there is the embedding."""

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


class HeadDim(harness.Case):
    def test_field_case_25_the_explicit_head_dim_wins(self):
        # hidden 640 over 4 heads would be 160.
        shape = dict(hidden=640, layers=1, heads=4, kv_heads=2, ffn=32, head_dim=256)
        path = self.folder / "wide-heads.gguf"
        kept = {}
        tiny_gguf.random_model(path, scale=0.06, keep=kept, **shape)
        prompt = "rope turns"
        got = self.json("run", "-m", path, "--raw", "-p", prompt, "-n", 3, "--temp", 0, "--ignore-eos", "--precision", "f32",
                        "-ctk", "f32", "--json")["tokens"]
        vocab = tiny_gguf.Vocabulary()
        ids = self.json("tokenize", "-m", path, "--json", prompt)["ids"]
        end = [vocab.ids[t] for t in ("<|im_end|>", "<|endoftext|>")]      # --ignore-eos: never chosen
        for token in got:
            logits = {rotated: forward(kept, ids, 4, 2, 256, rotated) for rotated in (256, 160)}
            best = {r: max((i for i in range(len(vocab)) if i not in end), key=l.__getitem__) for r, l in logits.items()}
            self.assertEqual(token, best[256])
            ids.append(token)
        self.assertGreater(max(abs(a - b) for a, b in zip(logits[256], logits[160])), 0.1)   # the answer depends on it


class Converting(harness.Case):
    def test_field_case_28_576_by_k_quants_of_256(self):
        model = self.model("odd", tiny_gguf.random_model, hidden=576, heads=9, kv_heads=3, ffn=256, layers=1)
        expected = {"q4_k": ("Q5_0", 5.5), "q5_k": ("Q5_1", 6.0), "q6_k": ("Q8_0", 8.5)}
        for target, (instead, bits) in expected.items():
            out = self.folder / f"odd.{target}.gguf"
            report = self.json("convert", model, out, "--type", target, "--json")
            for tensor in report["tensors"]:
                if tensor["name"] == "blk.0.attn_q.weight":              # rows of 576
                    self.assertEqual((tensor["to"], tensor["bits_per_weight"]), (instead, bits))
                    self.assertEqual(tensor["fallback_for"], target.upper())
                if tensor["name"] == "blk.0.ffn_down.weight":            # rows of 256
                    self.assertEqual(tensor["to"], target.upper())
            answer = self.json("run", "-m", out, "-p", "hello", "-n", 8, "--temp", 0, "--ignore-eos", "--json")
            self.assertEqual(len(answer["tokens"]), 8)

    def test_field_case_28_192_runs_in_blocks_of_32_exactly(self):
        model = self.model("narrow", tiny_gguf.random_model, hidden=192, heads=3, kv_heads=3, ffn=160, layers=1)
        out = self.folder / "narrow.q8_0.gguf"
        report = self.json("convert", model, out, "--type", "q8_0", "--json")
        self.assertFalse([t["name"] for t in report["tensors"] if "fallback_for" in t])
        ask = lambda m: self.json("run", "-m", m, "-p", "hello", "-n", 8, "--temp", 0, "--ignore-eos", "--json")["tokens"]
        self.assertEqual(len(ask(out)), 8)


if __name__ == "__main__":
    harness.main()
