#!/usr/bin/env python3
"""What a config.json means by leaving a key out, asked of Transformers itself.

  tests/oracle/check_defaults.py build/release/apps/lithe/lithe [NAME...]

For each model of tests/golden/models and each key of its config.json: Lithe must make the same file of the directory without
the key as of the one that states what Transformers assumes then. A key without which Lithe refuses is listed, not counted.
Needs transformers, so it is run by hand.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import transformers
from transformers.utils import logging

MODELS = pathlib.Path(__file__).parent.parent / "golden" / "models"
# Which class it is, and what only training, generation and Transformers itself read.
IDLE = {"architectures", "model_type", "torch_dtype", "dtype", "transformers_version", "quantization_config", "auto_map"}


def converted(lithe, folder, config):
    """The file that Lithe makes, or what it says instead."""
    (folder / "m" / "config.json").write_text(json.dumps(config))
    target = folder / "m.gguf"
    ran = subprocess.run(
        [lithe, "convert", folder / "m", target, "--type", "f32"], capture_output=True, text=True)
    return target.read_bytes() if ran.returncode == 0 else ran.stderr.strip()


def assumed(config, key):
    return transformers.AutoConfig.for_model(**config).to_dict().get(key)


def derived(config):
    """What GGUF leaves out where it follows from the rest, so that the bytes differ and nothing else."""
    heads = config.get("num_attention_heads", 1)
    return {"head_dim": config.get("hidden_size", 0) // heads, "num_key_value_heads": heads}


def check(lithe, name, folder):
    stated = json.loads((MODELS / name / "config.json").read_text())
    (folder / "m").mkdir()
    (folder / "m" / "model.safetensors").symlink_to((MODELS / name / "model.safetensors").resolve())
    wrong, asked = [], []
    if isinstance(whole := converted(lithe, folder, stated), str):
        return [whole], asked
    for key in sorted(set(stated) - IDLE):
        without = {other: value for other, value in stated.items() if other != key}
        try:
            value = assumed(without, key)
        except Exception:  # Transformers insists on it too
            continue
        if value == derived(stated).get(key) or key == "tie_word_embeddings" and value is False:
            continue  # without a head and a word about it, Lithe ties; Transformers draws one at random
        absent = converted(lithe, folder, without)
        explicit = converted(lithe, folder, without | {key: value})
        if absent == explicit:
            continue
        if isinstance(absent, str):
            asked.append(key)
        else:
            wrong.append(f"{key} (Transformers: {value}{', ' + explicit if isinstance(explicit, str) else ''})")
    return wrong, asked


def main():
    logging.set_verbosity_error()
    lithe, names = sys.argv[1], sys.argv[2:] or sorted(path.name for path in MODELS.iterdir())
    bad = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            wrong, asked = check(lithe, name, pathlib.Path(folder))
        bad += bool(wrong)
        print("BAD" if wrong else "ok ", name, "; ".join(wrong), f"[refuses without {', '.join(asked)}]" if asked else "")
    print(f"{len(names) - bad} of {len(names)} as Transformers")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
