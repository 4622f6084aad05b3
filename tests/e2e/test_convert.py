import os
import pathlib
import signal
import struct
import subprocess
import time

import harness
import tiny_gguf

TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k"]


class Convert(harness.Case):
    """lithe convert and lithe inspect, from file to file."""

    def output(self, name):
        path = self.folder / name
        path.unlink(missing_ok=True)
        return path

    def answer(self, model):
        return self.json("run", "-m", model, "-p", "hello", "-n", 12, "--temp", 0, "--ignore-eos", "--json")["tokens"]

    def test_every_type_is_written_and_runs(self):
        wide = self.model("wide", tiny_gguf.random_model, hidden=256, heads=4, kv_heads=2, ffn=512, layers=1)
        same = self.answer(wide)
        for name in TYPES:
            out = self.output(f"wide.{name}.gguf")
            report = self.out("convert", wide, out, "--type", name)
            self.assertIn("bits a weight", report)
            facts = self.json("inspect", out, "--json")
            self.assertIn(name.upper(), facts["types"])
            self.assertTrue(facts["runs"], facts["problems"])
            answer = self.answer(out)
            self.assertEqual(len(answer), 12)
            if name == "f32":
                self.assertEqual(answer, same)
                self.assertEqual(out.read_bytes().count(b"general.alignment"), 0)

    def test_fallbacks_are_listed_with_true_bits(self):
        odd = self.model("odd", tiny_gguf.random_model, hidden=192, heads=3, kv_heads=3, ffn=512, layers=2)
        out = self.output("odd.q4_k.gguf")
        report = self.out("convert", odd, out, "--type", "Q4_K")
        self.assertIn("Fallbacks (13 tensors)", report)
        self.assertRegex(report, r"blk\.\{0,1\}\.attn_q\.weight +x2 +\[192, 192\] +Q5_0 +5\.500 bits")
        self.assertIn("instead of Q4_K, whose blocks of 256 do not divide 192", report)
        tensors = {t["name"]: t for t in self.json("convert", odd, out, "--type", "q4_k", "--json")["tensors"]}
        self.assertEqual(tensors["blk.0.ffn_down.weight"]["to"], "Q4_K")
        self.assertNotIn("fallback_for", tensors["blk.0.ffn_down.weight"])
        self.assertEqual(tensors["blk.1.ffn_up.weight"]["fallback_for"], "Q4_K")
        self.assertEqual(tensors["blk.1.ffn_up.weight"]["bits_per_weight"], 5.5)
        self.assertEqual(len(self.answer(out)), 12)

    def test_dry_run_writes_nothing(self):
        out = self.output("dry.gguf")
        self.assertIn("dry run", self.out("convert", self.random(), out, "--type", "q8_0", "--dry-run"))
        self.assertFalse(out.exists())

    def test_requantising_is_noted(self):
        out = self.output("first.gguf")
        self.out("convert", self.random(), out, "--type", "q8_0")
        report = self.out("convert", out, self.output("second.gguf"), "--type", "q4_0")
        self.assertRegex(report, r"requantised \(\d+ from Q8_0\)")

    def test_there_and_back_as_a_hugging_face_directory(self):
        model = self.random()
        folder = self.folder / "as-hf"
        report = self.out("convert", model, folder, "--hf", "--max-shard-size", "20KB")
        self.assertIn("tensors in f32", report)
        names = {path.name for path in folder.iterdir()}
        self.assertLessEqual({"config.json", "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json"},
                             names)
        self.assertEqual(self.answer(folder), self.answer(model))
        back = self.output("back.gguf")
        self.out("convert", folder, back, "--type", "f32")
        self.assertEqual(self.answer(back), self.answer(model))
        self.assertIn("is there already", self.refused(2, "convert", model, folder, "--hf"))
        self.assertIn("5GB", self.refused(2, "convert", model, self.folder / "x", "--hf", "--max-shard-size", "much"))
        self.assertIn("not q8_0", self.refused(1, "convert", model, self.folder / "x", "--hf", "--type", "q8_0"))
        self.assertFalse((self.folder / "x").exists())
        self.assertFalse([path for path in self.folder.iterdir() if "partial" in path.name])

    def test_refusals(self):
        model, out = self.random(), self.output("refused.gguf")
        self.assertIn("is the input itself", self.refused(2, "convert", model, model, "--type", "q8_0"))
        self.assertIn("q4_k_m", self.refused(2, "convert", model, out, "--type", "q4_k_m"))
        self.assertIn("not a folder", self.refused(2, "convert", model, self.folder / "no" / "x.gguf", "--type", "q8_0"))
        self.assertIn("none.gguf", self.refused(1, "convert", self.folder / "none.gguf", out, "--type", "q8_0"))
        nan = self.folder / "nan.gguf"
        tiny_gguf.write_gguf(nan, {"general.architecture": "llama"},
                             [("blk.0.ffn_up.weight", [32, 4], [0.0] * 70 + [float("nan")] + [0.0] * 57)])
        error = self.refused(1, "convert", nan, out, "--type", "q8_0")
        self.assertIn("'blk.0.ffn_up.weight' holds nan in row 2, column 6", error)
        self.assertFalse(out.exists())

    def big_model(self):
        """2 GiB of zeros that take no disk: long enough to be interrupted."""
        path = self.folder / "big.gguf"
        head = struct.pack("<IIQQ", 0x46554747, 3, 1, 0) + tiny_gguf.written("blk.0.ffn_up.weight")
        head += struct.pack("<IQQIQ", 2, 1 << 15, 1 << 14, 0, 0)
        head += b"\0" * (-len(head) % 32)
        with open(path, "wb") as file:
            file.write(head)
            file.truncate(len(head) + (1 << 31))
        return path

    def test_ctrl_c_leaves_nothing(self):
        folder = self.folder / "interrupted"
        folder.mkdir()
        process = subprocess.Popen([harness.BIN, "convert", self.big_model(), folder / "out.gguf", "--type", "q4_k"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=harness.clean_environment(**self.env))
        while process.poll() is None and not os.listdir(folder):
            time.sleep(0.01)
        self.assertEqual([f for f in os.listdir(folder) if f == "out.gguf"], [])
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT, err)
        self.assertEqual(out, b"")
        self.assertEqual(os.listdir(folder), [])


class Inspect(harness.Case):
    def test_a_page_to_read(self):
        text = self.out("inspect", self.random())
        for part in ("GGUF version 3", "architecture   llama", "2 layers, hidden 64, 4 heads of 16 on 2 kv heads, ffn 96",
                     "runs           yes", "Memory for 512 tokens", "llama.block_count", "string[265]",
                     "blk.{0,1}.attn_q.weight", "bits/weight"):
            self.assertIn(part, text)
        self.assertGreater(self.out("inspect", self.random(), "--all").count("blk.1."), 8)

    def test_memory_follows_context_batch_and_type(self):
        need = lambda *flags: self.json("inspect", self.random(), "--json", *flags)["memory"]
        base = need("--ctx", 4096)
        self.assertEqual(need("--ctx", 8192)["kv_cache_bytes"], 2 * base["kv_cache_bytes"])
        self.assertEqual(need("--ctx", 4096, "--kv-cache-dtype", "f32")["kv_cache_bytes"], 2 * base["kv_cache_bytes"])
        self.assertLess(need("--ctx", 4096, "--kv-cache-dtype", "q8_0")["kv_cache_bytes"], base["kv_cache_bytes"])
        self.assertGreater(need("--ctx", 4096, "--batch", 4096)["activation_bytes_estimate"], base["activation_bytes_estimate"])
        self.assertEqual(base["total_bytes"],
                         base["weights_bytes"] + base["kv_cache_bytes"] + base["activation_bytes_estimate"])
        self.assertEqual(base["kv_bytes_per_token"], 2 * 2 * 2 * 16 * 2)  # layers, k and v, kv heads, channels, bytes

    def test_what_does_not_run_is_shown_and_said(self):
        strange = self.model("strange", tiny_gguf.random_model, **{"general.architecture": "mamba3"})
        facts = self.json("inspect", strange, "--json")
        self.assertFalse(facts["runs"])
        self.assertIn("mamba3", " ".join(facts["problems"]))
        self.assertIsNone(facts["memory"])
        self.assertGreater(len(facts["tensors"]), 10)
        llamas = self.model("llamas", tiny_gguf.random_model, **{"general.architecture": "llama9"})
        self.assertIn("'llama9' is not one that Lithe runs: the nearest that runs is 'llama'", self.out("inspect", llamas))
        self.assertIn("the nearest that runs is 'llama'", self.refused(1, "run", "-m", llamas, "-p", "x"))

    def test_missing_and_useless_tensors_are_listed(self):
        lacking = self.model("lacking", tiny_gguf.random_model, without="blk.1.attn_k.weight")
        facts = self.json("inspect", lacking, "--json")
        self.assertRegex(" ".join(facts["problems"]), r"lacks 1 of the tensors .*: blk\.1\.attn_k\.weight")
        spare = self.model("spare", tiny_gguf.random_model, **{"llama.block_count": 1})
        facts = self.json("inspect", spare, "--json")
        self.assertTrue(facts["runs"], facts["problems"])
        self.assertRegex(facts["notes"][0], r"9 tensors of the file are not used: blk\.1\.attn_norm\.weight")
        vocabulary = self.folder / "vocabulary.gguf"
        tiny_gguf.write_gguf(vocabulary, tiny_gguf.metadata(tiny_gguf.Vocabulary(), 64, 2, 4, 2, 96, 512), [])
        self.assertIn("no weights", self.out("inspect", vocabulary))
        bare = self.folder / "bare.gguf"
        tiny_gguf.write_gguf(bare, {}, [])
        self.assertIn("general.architecture is missing", self.out("inspect", bare))
        alien = self.folder / "alien.gguf"
        head = struct.pack("<IIQQ", 0x46554747, 3, 1, 0) + tiny_gguf.written("blk.0.ffn_up.weight")
        head += struct.pack("<IQQIQ", 2, 256, 2, 15, 0)  # Q8_K: 292 bytes a block
        alien.write_bytes(head + b"\0" * (-len(head) % 32) + b"\0" * 608)
        facts = self.json("inspect", alien, "--json")
        self.assertEqual(facts["tensors"][0]["type"], "Q8_K")
        self.assertIn("Q8_K", " ".join(facts["problems"]))

    def test_untrusted_names_cannot_drive_the_terminal(self):
        path = self.folder / "escape.gguf"
        tiny_gguf.write_gguf(path, {"general.name": "\x1b[2Jboo", "\x1b]0;x\x07": 1}, [("a\x1b[31m", [8], [0.0] * 8)])
        text = self.out("inspect", path)
        self.assertNotIn("\x1b", text)
        self.assertIn("\\x1b[2Jboo", text)
        self.json("inspect", path, "--json")

    def test_refusals(self):
        self.assertIn("none.gguf", self.refused(1, "inspect", self.folder / "none.gguf"))
        self.refused(2, "inspect", self.folder)
        self.assertIn("no model given", self.refused(1, "inspect"))
        self.assertEqual(self.lithe("inspect", self.random(), "--kv-cache-dtype", "q2").returncode, 2)

    def test_shards_are_one_model(self):
        for number in (1, 2):
            tiny_gguf.write_gguf(self.folder / f"s-0000{number}-of-00002.gguf",
                                 {"split.no": number - 1, "split.count": 2, "split.tensors.count": 2},
                                 [(f"blk.{number}.ffn_up.weight", [32, 2], [0.0] * 64)])
        facts = self.json("inspect", self.folder / "s-00002-of-00002.gguf", "--json")
        self.assertEqual((facts["shards"], len(facts["tensors"])), (2, 2))
        merged = self.folder / "merged.gguf"
        self.out("convert", self.folder / "s-00001-of-00002.gguf", merged, "--type", "f32")
        self.assertEqual(self.json("inspect", merged, "--json")["shards"], 1)
        pathlib.Path(self.folder / "s-00002-of-00002.gguf").unlink()
        self.assertIn("s-00002-of-00002.gguf is missing", self.refused(1, "inspect", self.folder / "s-00001-of-00002.gguf"))


if __name__ == "__main__":
    harness.main()
