"""What a directory says that would change the numbers is run as Transformers runs it, or refused in one line."""
import json
import pathlib
import shutil
import struct

import harness

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"


def read_npy(path):
    raw = path.read_bytes()
    size = struct.unpack_from("<H", raw, 8)[0]
    kind = "i" if b"<i4" in raw[:10 + size] else "f"
    return struct.unpack(f"<{(len(raw) - 10 - size) // 4}{kind}", raw[10 + size:])


def distance(got, wanted):
    return max(abs(a - b) for a, b in zip(got, wanted, strict=True)) / max(map(abs, wanted))


def with_keys(source, target, keys):
    """A copy of a GGUF file with further keys: {name: (type, packed value)}."""
    text = lambda raw: struct.pack("<Q", len(raw)) + raw
    raw = source.read_bytes()
    version, tensors, count = struct.unpack_from("<IQQ", raw, 4)
    more = b"".join(text(name.encode()) + struct.pack("<I", kind) + value for name, (kind, value) in keys.items())
    more += text(b"filler") + struct.pack("<I", 8)  # a string that keeps the data aligned
    more += text(b" " * (-(len(more) + 8) % 64))
    target.write_bytes(raw[:4] + struct.pack("<IQQ", version, tensors, count + len(keys) + 1) + more + raw[24:])
    return target


class Meaning(harness.Case):
    def directory(self, name, **changes):
        """A golden model with another config.json; None takes a key away."""
        source = next(path for path in (GOLDEN / "models" / name, GOLDEN / "encoders" / name) if path.exists())
        folder = self.folder / name
        if not folder.exists():
            shutil.copytree(source, folder)
        config = json.loads((source / "config.json").read_text()) | changes
        (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
        count = config["vocab_size"]
        (folder / "tokenizer.json").write_text(json.dumps({
            "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
            "model": {"type": "WordLevel", "vocab": {f"t{i}": i for i in range(count)}, "unk_token": "t0"}}))
        return folder

    def logits(self, folder, file=None):
        """Of the folder's prompt; file: what was made of it."""
        ids = read_npy(folder / "ids.npy")
        out = self.folder / "logits.npy"
        self.out("eval", "-m", file or folder, "--ids", ",".join(map(str, ids)), "--logits-out", out, "--precision", "f32",
                 "--kv-cache-dtype", "f32")
        return read_npy(out)

    def eval_refused(self, folder):
        return self.refused(1, "eval", "-m", folder, "--ids", "1,2,3", "--logits-out", self.folder / "logits.npy")

    def test_what_the_family_does_not_do_is_refused(self):
        yarn = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0}
        for name, says, changes in (
                ("llama_odd", "partial_rotary_factor", {"partial_rotary_factor": 0.5}),
                ("qwen2_bias", "partial_rotary_factor", {"rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 0.5}}),
                ("qwen2_bias", "is_causal", {"is_causal": False}),
                ("gemma3", "use_bidirectional_attention", {"use_bidirectional_attention": True}),
                ("gemma3", "attn_logit_softcapping", {"attn_logit_softcapping": 50.0}),
                ("gemma3", "sliding_attention", {"rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": yarn}}),
                ("gemma3", "layer_types has 2 entries for 7 layers", {"layer_types": ["sliding_attention"] * 2}),
                ("gemma", "hidden_act", {"hidden_act": "silu"}),
                ("deepseek_v3", "scoring_func", {"scoring_func": "softmax"}),
                ("llama_odd", "quantised by 'gptq'", {"quantization_config": {"quant_method": "gptq", "bits": 4}}),
                ("llama_odd", "quantised by 'bitsandbytes'", {"quantization_config": {"load_in_4bit": True}}),
                ("llama_odd", "'pack-quantized'", {"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"}})):
            with self.subTest(name=name, says=says):
                self.assertIn(says, self.eval_refused(self.directory(name, **changes)))

    def test_what_means_nothing_changes_nothing(self):
        plain = self.logits(self.directory("llama_odd"))
        for changes in ({"sliding_window": 5}, {"is_causal": True}, {"partial_rotary_factor": 1.0}, {"quantization_config": None}):
            self.assertEqual(self.logits(self.directory("llama_odd", **changes)), plain)

    def test_the_ends_of_yarns_ramp(self):
        scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 10000.0}
        logits = {cut: self.logits(self.directory("llama_odd", rope_parameters=scaling | ({} if cut is None else {"truncate": cut})))
                  for cut in (None, True, False)}
        self.assertEqual(logits[None], logits[True])
        self.assertGreater(distance(logits[False], logits[True]), 1e-2)
        file = self.folder / "yarn.gguf"
        folder = self.folder / "llama_odd"  # the one without
        self.out("convert", folder, file, "--type", "f32")
        self.assertEqual(self.logits(folder, file), logits[False])

    def test_only_full_layers_rotate_by_the_scaling_of_llama3(self):
        # A window that sees everything makes both kinds of layers alike but for their rotation.
        scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 16, "rope_theta": 20000.0}
        local = {"rope_type": "default", "rope_theta": 20000.0}
        windows = {"num_hidden_layers": 5, "layer_types": ["sliding_attention"] * 5, "sliding_window": 400}
        scaled = self.logits(self.directory("olmo3", rope_parameters={"full_attention": scaling, "sliding_attention": local}, **windows))
        plain = self.logits(self.directory("olmo3", rope_parameters={"full_attention": local, "sliding_attention": local}, **windows))
        self.assertEqual(scaled, plain)

    def test_short_runs_rotate_by_the_short_factors(self):
        folder = self.directory("phi3_longrope")
        wanted = read_npy(folder / "logits.npy")
        self.assertLess(distance(self.logits(folder), wanted), 1e-4)

    def test_older_words_for_the_long_factors(self):
        config = json.loads((GOLDEN / "models" / "phi3_longrope" / "config.json").read_text())
        scaling = {k: v for k, v in config["rope_parameters"].items() if k not in ("rope_type", "rope_theta")}
        wanted = self.logits(self.directory("phi3_longrope"))
        for word in ("su", "yarn"):
            folder = self.directory("phi3_longrope", rope_parameters=None, rope_theta=config["rope_parameters"]["rope_theta"],
                                    rope_scaling=scaling | {"type": word})
            self.assertEqual(self.logits(folder), wanted)

    def test_what_gguf_says_that_changes_the_numbers(self):
        text = lambda word: (8, struct.pack("<Q", len(word)) + word)
        folder, file, other = self.directory("llama_odd"), self.folder / "plain.gguf", self.folder / "other.gguf"
        self.out("convert", folder, file, "--type", "f32")
        for key, value, says in (("llama.attention.causal", (7, b"\0"), "llama.attention.causal = false"),
                                 ("general.type", text(b"adapter"), "holds an adapter"),
                                 ("llama.rope.scaling.type", text(b"spiral"), "'spiral'")):
            self.assertIn(says, self.eval_refused(with_keys(file, other, {key: value})))
        scaling = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
        wanted = self.logits(self.directory("llama_odd", rope_parameters=scaling))
        for key in ("llama.rope.scaling.factor", "llama.rope.scale_linear"):  # linear, without that word
            self.assertEqual(self.logits(folder, with_keys(file, other, {key: (6, struct.pack("<f", 4))})), wanted)
        plain = self.logits(folder, file)
        self.assertEqual(self.logits(folder, with_keys(file, other, {"llama.rope.scale_linear": (6, struct.pack("<f", 0))})), plain)

    def test_no_shared_expert(self):
        self.assertTrue(self.logits(self.directory("qwen2_moe", shared_expert_intermediate_size=0)))

    def test_encoders_tell_no_next_token(self):
        folder = self.directory("bert")
        self.assertIn("`lithe embed`", self.eval_refused(folder))
        self.assertIn("`lithe embed`", self.refused(1, "bench", "-m", folder, "-p", 8, "-n", 1))
        text = self.folder / "text"
        text.write_text("t1 t2 " * 100)
        self.assertIn("`lithe embed`", self.refused(1, "eval", "-m", folder, "--text", text, "--ctx", 16))

    def test_what_makes_one_vector_of_a_text(self):
        folder = self.directory("bert", is_decoder=True)
        self.assertIn("is_decoder", self.refused(1, "embed", "-m", folder, "t1"))
        folder = self.directory("bert")
        pooling = folder / "1_Pooling" / "config.json"
        pooling.parent.mkdir(exist_ok=True)
        embedded = lambda *flags: json.loads(self.out("embed", "-m", folder, "t1 t2 t3", "--embd-output-format", "array", *flags))
        for says in ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, {"pooling_mode": "cls"}):
            pooling.write_text(json.dumps(says))
            self.assertEqual(embedded(), embedded("--pooling", "cls"))
        for says, word in (({"pooling_mode_max_tokens": True}, "'max'"), ({"pooling_mode": "weightedmean"}, "'weightedmean'"),
                           ({"pooling_mode_mean_sqrt_len_tokens": True}, "'mean_sqrt_len'"), ([], "no object"),
                           ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "side by side")):
            pooling.write_text(json.dumps(says))
            self.assertIn(word, self.refused(1, "embed", "-m", folder, "t1"))
        module = lambda kind, path="": {"idx": 0, "name": "0", "path": path, "type": "sentence_transformers.models." + kind}
        modules = folder / "modules.json"
        pooling.write_text(json.dumps({"pooling_mode_max_tokens": True}))
        (folder / "elsewhere").mkdir()
        (folder / "elsewhere" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
        modules.write_text(json.dumps([module("Transformer"), module("Pooling", "elsewhere"), module("Normalize", "2_Normalize")]))
        self.assertEqual(embedded(), embedded("--pooling", "cls"))
        modules.write_text(json.dumps([module("Transformer"), module("Pooling", "elsewhere"), module("Dense", "2_Dense")]))
        self.assertIn("a module 'Dense'", self.refused(1, "embed", "-m", folder, "t1"))
        modules.write_text(json.dumps([module("Pooling", "../elsewhere")]))
        self.assertIn("the pooling lies in", self.refused(1, "embed", "-m", folder, "t1"))

    def test_decoders_pool_as_their_directory_says(self):
        folder = self.directory("olmo2")
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
        embedded = lambda *flags: json.loads(self.out("embed", "-m", folder, "t1 t2 t3", "--embd-output-format", "array", *flags))
        self.assertEqual(embedded(), embedded("--pooling", "mean"))
        self.assertNotEqual(embedded(), embedded("--pooling", "last"))

    def test_adapters_and_lost_files(self):
        folder = self.folder / "adapter"
        folder.mkdir()
        (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
        for command in (["inspect", folder], ["run", "-m", folder, "-p", "t1"]):
            self.assertIn("holds an adapter, not a model", self.refused(1, *command))
        folder = self.directory("qwen3_norm")
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors").symlink_to("gone")
        self.assertIn("is a link to a file that is not there", self.eval_refused(folder))

    def test_chains_of_steps_end(self):
        folder = self.directory("llama_yarn")
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        split = {"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated", "invert": False}
        tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split] * 300}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.assertIn("a chain of 300 steps", self.refused(1, "tokenize", "-m", folder, stdin="a"))


if __name__ == "__main__":
    harness.main()
