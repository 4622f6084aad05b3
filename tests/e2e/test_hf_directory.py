"""Hugging Face directories as a user meets them: what is in them, and what is wrong with them."""
import json
import pathlib

import harness
from tiny_hf import safetensors


class HfDirectory(harness.Case):
    def directory(self, name, shards, config=None):
        folder = pathlib.Path(self.folder) / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config or {"architectures": ["StrangeForCausalLM"], "hidden_size": 8, "eos": [1, 2]}))
        places = {tensor: file for file, tensors in shards.items() for tensor in tensors}
        for file, tensors in shards.items():
            (folder / file).write_bytes(safetensors(tensors))
        if len(shards) > 1:
            (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
        return folder

    def strange(self, name):
        layer = {f"model.layers.{i}.mlp.weight": ("F8_E4M3", [4, 8], bytes(32)) for i in range(3)}
        return self.directory(name, {"model-00001-of-00002.safetensors": {**layer, "odd": ("F4", [2, 8], bytes(8))},
                                     "model-00002-of-00002.safetensors": {"ids": ("I64", [2], bytes(16)), "new": ("F7_X", [3], bytes(2))}})

    def test_what_does_not_run_is_shown_all_the_same(self):
        folder = self.strange("strange")
        text = self.out("inspect", folder)
        self.assertRegex(text, r"runs +no: ")
        self.assertRegex(text, r"architectures +\[\"StrangeForCausalLM\"\]")
        self.assertRegex(text, r"model\.layers\.\{0-2\}\.mlp\.weight +x3 +\[4, 8\] +F8_E4M3 +8\.000 bits +96 B")
        self.assertRegex(text, r"odd +\[2, 8\] +F4 +4\.000 bits +8 B")
        self.assertRegex(text, r"new +\[3\] +F7_X ")
        report = self.json("inspect", folder, "--json")
        self.assertEqual((report["runs"], report["shards"], len(report["tensors"])), (False, 2, 6))
        self.assertEqual(report["config"]["eos"], [1, 2])
        self.assertEqual(report["types"]["I64"], {"tensors": 1, "weights": 2, "bytes": 16})
        self.assertIn("model.layers.1.mlp.weight", self.out("inspect", folder, "--all"))

    def test_the_index_is_the_authority(self):
        folder = self.strange("damaged")
        (folder / "stray.safetensors").write_bytes(b"x")
        done = self.lithe("inspect", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("stray.safetensors is no part of the model and ignored", done.stderr)
        (folder / "stray.safetensors").unlink()
        shard = folder / "model-00002-of-00002.safetensors"
        whole = shard.read_bytes()
        shard.write_bytes(whole[:-1])
        self.assertIn("model-00002-of-00002.safetensors: tensor 'new' does not fit", self.refused(1, "inspect", folder))
        shard.unlink()
        self.assertIn("model-00002-of-00002.safetensors is missing", self.refused(1, "inspect", folder))

    def test_what_is_made_on_demand_has_bytes_too(self):
        folder = pathlib.Path(__file__).parent.parent / "golden" / "models" / "deepseek_v3"
        report = self.json("inspect", folder, "--json")
        self.assertEqual(sum(tensor["bytes"] for tensor in report["tensors"]), sum(row["bytes"] for row in report["types"].values()))
        norm = next(tensor for tensor in report["tensors"] if tensor["name"] == "output_norm.weight")
        self.assertEqual((norm["shape"], norm["bytes"]), ([32], 4 * 32))
        self.assertRegex(self.out("inspect", folder), r"output_norm\.weight +\[32\] +F32 +32\.000 bits +128 B")

    def test_pickles_are_never_read(self):
        folder = self.directory("pickles", {})
        owned = folder / "owned"
        (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch %s'\ntR." % str(owned).encode())
        self.assertIn("as a pickle (pytorch_model.bin), which could run code", self.refused(1, "inspect", folder))
        self.assertFalse(owned.exists())


if __name__ == "__main__":
    harness.main()
