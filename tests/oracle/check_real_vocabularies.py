#!/usr/bin/env python3
"""Compares Lithe's ids with Hugging Face tokenizers' on real vocabularies, which are too large to commit.

    python3 tests/oracle/check_real_vocabularies.py --tool build/release/tests/parity/tokenizer_ids MODEL.gguf...

For each file: the test strings of llama.cpp, N generated odd strings, and as many with the file's own added tokens in
them; for the families of which llama.cpp publishes ids, those too. Needs: tokenizers 0.23, gguf. Exit code 1 when any
string differs.
"""
import argparse
import pathlib
import struct
import subprocess
import sys

import hf_reference
from odd_strings import odd_string

DATA = pathlib.Path(__file__).resolve().parent.parent / "parity" / "tokenizer"


def ids_of(tool, path, strings):
    data = b"".join(struct.pack("<I", len(text)) + text for text in (s.encode("utf-8") for s in strings))
    lines = subprocess.run([tool, path], input=data, capture_output=True, check=True).stdout.decode().split("\n")[:-1]
    return [[int(i) for i in line.split()] for line in lines]


def reference_of(vocab):
    if vocab["model"] == "t5":
        return hf_reference.Unigram(vocab).ids, []
    tokenizer = hf_reference.build_vocabulary(vocab)
    added = [token for token, kind in zip(vocab["tokens"], vocab["types"])
             if kind in (hf_reference.CONTROL, hf_reference.USER_DEFINED)]
    return lambda strings: [e.ids for e in tokenizer.encode_batch(strings, add_special_tokens=False)], added


def check(tool, path, count, first):
    vocab = hf_reference.read_vocabulary(path)
    reference, added = reference_of(vocab)
    beside = pathlib.Path(path + ".inp")  # llama.cpp's test strings and its ids
    published = pathlib.Path(path + ".out")
    text = (beside if beside.exists() else DATA / "llama.cpp.inp").read_text(encoding="utf-8")
    inputs = text.split("\n__ggml_vocab_test__\n")
    strings = inputs + [odd_string(first + i) for i in range(count)]
    strings += [odd_string(first + i, added[:24]) for i in range(count)] if added else []
    got = ids_of(tool, path, strings)
    expected = reference(strings)
    differ = [i for i in range(len(strings)) if got[i] != expected[i]]
    for i in differ[:5]:
        print(f"  {strings[i]!r}\n    reference {expected[i]}\n    Lithe     {got[i]}")
    note = ""
    if not published.exists():
        published = DATA / f"llama.cpp.{vocab['pre']}.out"
    if published.exists():
        lines = published.read_text().split("\n")
        same = sum([int(i) for i in line.split()] == ids for line, ids in zip(lines, got[:len(inputs)]))
        note = f"; {same} of {len(inputs)} equal llama.cpp's published ids"
    print(f"{path}: {vocab['model']} {vocab['pre']}, {len(vocab['tokens'])} tokens: {len(strings)} strings, "
          f"{sum(map(len, expected))} ids, {len(differ)} differ{note}", flush=True)
    return not differ


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True, help="the program tokenizer_ids of the build")
    parser.add_argument("--strings", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first odd string")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    sys.exit(0 if all([check(args.tool, path, args.strings, args.first) for path in args.models]) else 1)


if __name__ == "__main__":
    main()
