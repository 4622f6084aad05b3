#!/usr/bin/env python3
"""Hugging Face directories that Lithe wrote, loaded by Transformers itself, against the goldens.

  tests/oracle/check_exports.py build/release/apps/lithe/lithe [NAME...]

For each model of tests/golden/models: `lithe convert` to GGUF (f32) and back to a directory, which Transformers loads; its
logits must be the golden's to 1e-5 of the largest, every tensor used and none missing. Needs torch and transformers, so it
is run by hand, not by the tests; these hold the directories equal to what Lithe itself reads.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from transformers.utils import logging as progress

MODELS = pathlib.Path(__file__).parent.parent / "golden" / "models"


def check(lithe, name, folder):
    def convert(source, target, *flags):
        subprocess.run([lithe, "convert", source, target, *flags], check=True, stdout=subprocess.DEVNULL)

    file, back = folder / f"{name}.gguf", folder / name
    convert(MODELS / name, file, "--type", "f32")
    convert(file, back, "--hf", "--type", "f32")
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        back, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    ids = np.load(MODELS / name / "ids.npy")
    golden = np.load(MODELS / name / "logits.npy")
    with torch.no_grad():
        logits = model.eval()(torch.tensor(ids, dtype=torch.int64)[None]).logits[0].numpy()
    error = float(np.abs(logits - golden).max() / np.abs(golden).max())
    odd = {key: sorted(value)[:3] for key, value in report.items() if value}
    return type(model).__name__, error, odd


def main():
    transformers.logging.set_verbosity_error()
    progress.disable_progress_bar()
    lithe, names = sys.argv[1], sys.argv[2:] or sorted(p.name for p in MODELS.iterdir() if p.is_dir())
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            try:
                kind, error, odd = check(lithe, name, pathlib.Path(folder))
                good = error < 1e-5 and not odd
                print(f"{'ok ' if good else 'BAD'} {name}: {kind}, relative error {error:.1e} {odd or ''}")
            except Exception as failure:  # whatever a directory makes Transformers do
                good = False
                print(f"BAD {name}: {type(failure).__name__}: {str(failure)[:300]}")
            bad += not good
    print(f"{len(names) - bad} of {len(names)} equal")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
