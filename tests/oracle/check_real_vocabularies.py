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


def check(tool, path, count, first):
    pre, tokens, types, merges = hf_reference.read_gguf(path)
    reference = hf_reference.build(pre, tokens, types, merges)
    inputs = (DATA / "llama.cpp.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    added = [token for token, kind in zip(tokens, types) if kind in (hf_reference.CONTROL, hf_reference.USER_DEFINED)]
    strings = inputs + [odd_string(first + i) for i in range(count)]
    strings += [odd_string(first + i, added[:24]) for i in range(count)]
    got = ids_of(tool, path, strings)
    expected = [e.ids for e in reference.encode_batch(strings, add_special_tokens=False)]
    differ = [i for i in range(len(strings)) if got[i] != expected[i]]
    for i in differ[:5]:
        print(f"  {strings[i]!r}\n    Hugging Face {expected[i]}\n    Lithe        {got[i]}")
    published = DATA / f"llama.cpp.{pre}.out"
    note = ""
    if published.exists():
        lines = published.read_text().split("\n")
        same = sum([int(i) for i in line.split()] == ids for line, ids in zip(lines, got[:len(inputs)]))
        note = f"; {same} of {len(inputs)} equal llama.cpp's published ids"
    print(f"{path}: {pre}, {len(tokens)} tokens: {len(strings)} strings, {sum(map(len, expected))} ids, "
          f"{len(differ)} differ{note}")
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
