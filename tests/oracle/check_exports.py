#!/usr/bin/env python3
"""Hugging Face directories that Lithe wrote, loaded by Transformers itself, against the goldens.

  tests/oracle/check_exports.py build/release/apps/lithe/lithe [NAME...]

For each model of tests/golden/models and tests/golden/encoders: `lithe convert` to GGUF (f32) and back to a directory, which
Transformers loads; its logits (an encoder's rows and scores) must be the golden's to 1e-5 of the largest, every tensor used
and none missing, but an encoder's pooler, which GGUF has no place for. Needs torch and transformers, so it is run by hand,
not by the tests; these hold the directories equal to what Lithe itself reads.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from transformers.utils import logging as progress

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"
FIRST_SEGMENT = 20  # as make_tiny_encoders.py cuts a classifier's text


def relative(values, golden):
    return float(np.abs(values - golden).max() / np.abs(golden).max())


def load(kind, back):
    return getattr(transformers, kind).from_pretrained(back, dtype=torch.float32, attn_implementation="eager",
                                                       output_loading_info=True)


def error_of(model, source):
    ids = torch.tensor(np.load(source / "ids.npy"), dtype=torch.int64)[None]
    if source.parent.name == "models":
        return relative(model(ids).logits[0].numpy(), np.load(source / "logits.npy"))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    scores = source / "scores.npy"
    if scores.exists() and getattr(model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = (torch.arange(ids.shape[1])[None] >= FIRST_SEGMENT).long()
    base = getattr(model, model.base_model_prefix, model)
    error = relative(base(**inputs).last_hidden_state[0].numpy(), np.load(source / "rows.npy"))
    return max(error, relative(model(**inputs).logits[0].numpy(), np.load(scores))) if scores.exists() else error


def check(lithe, source, folder):
    def convert(source, target, *flags):
        subprocess.run([lithe, "convert", source, target, *flags], check=True, stdout=subprocess.DEVNULL)

    file, back = folder / f"{source.name}.gguf", folder / source.name
    convert(source, file, "--type", "f32")
    convert(file, back, "--hf", "--type", "f32")
    kind = "AutoModelForCausalLM" if source.parent.name == "models" else (
        "AutoModelForSequenceClassification" if (source / "scores.npy").exists() else "AutoModel")
    model, report = load(kind, back)
    with torch.no_grad():
        error = error_of(model.eval(), source)
    odd = {key: [name for name in sorted(value)[:3] if kind != "AutoModel" or not name.startswith("pooler.")]
           for key, value in report.items() if value}
    return type(model).__name__, error, {key: value for key, value in odd.items() if value}


def main():
    transformers.logging.set_verbosity_error()
    progress.disable_progress_bar()
    lithe, names = sys.argv[1], sys.argv[2:]
    sources = [path for kind in ("models", "encoders") for path in sorted((GOLDEN / kind).iterdir())
               if path.is_dir() and (not names or path.name in names)]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            try:
                kind, error, odd = check(lithe, source, pathlib.Path(folder))
                good = error < 1e-5 and not odd
                print(f"{'ok ' if good else 'BAD'} {source.name}: {kind}, relative error {error:.1e} {odd or ''}")
            except Exception as failure:  # whatever a directory makes Transformers do
                good = False
                print(f"BAD {source.name}: {type(failure).__name__}: {str(failure)[:300]}")
            bad += not good
    print(f"{len(sources) - bad} of {len(sources)} equal")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
