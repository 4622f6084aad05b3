#!/usr/bin/env python3
"""Tokenising speed beside Hugging Face tokenizers and llama.cpp, one thread, the same vocabulary and texts.

    python3 bench/tokenizer_compare.py --bench build/release/bench/tokenizer_bench MODEL.gguf TEXT...
        [--llama-cpp llama-tokenize]

Runs take turns; the median of the rounds is printed in MB/s. Hugging Face is built from the file itself
(tests/oracle/hf_reference.py) and gets the text in lines, its favourable case: whole texts are slower. llama.cpp is
timed as a program, less its time on a text of one letter; so that the difference stands out, its text is the same one
over and over, 2 MB of it, and printing the ids is in its time. Needs: tokenizers, gguf.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "oracle"))
import hf_reference  # noqa: E402

LLAMA_BYTES = 2_000_000


def lithe(bench, model, text):
    line = subprocess.run([bench, model, text], capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    return float(line.split("\t")[2].split()[0])


def hugging_face(tokenizer, text, size):
    start = time.perf_counter()
    for line in text:
        tokenizer.encode(line, add_special_tokens=False)
    return size / 1e6 / (time.perf_counter() - start)


def llama_cpp(program, model, text):
    def run(body):
        with tempfile.NamedTemporaryFile(suffix=".txt") as file:
            file.write(body)
            file.flush()
            start = time.perf_counter()
            subprocess.run([program, "-m", model, "-f", file.name, "--ids", "--log-disable", "--no-bos"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            return time.perf_counter() - start

    data = text.encode("utf-8")
    long = data * -(-LLAMA_BYTES // len(data))
    return len(long) / 1e6 / max(run(long) - run(b"a"), 1e-9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--llama-cpp")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("model")
    parser.add_argument("texts", nargs="+")
    args = parser.parse_args()
    reference = hf_reference.build_vocabulary(hf_reference.read_vocabulary(args.model))
    print("| text | Lithe | Hugging Face | ratio | llama.cpp | ratio |\n|---|---|---|---|---|---|")
    for path in args.texts:
        text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
        size, lines = len(text.encode("utf-8")), text.splitlines(keepends=True)
        ours, theirs, llama = [], [], []
        for _ in range(args.rounds):
            ours.append(lithe(args.bench, args.model, path))
            theirs.append(hugging_face(reference, lines, size))
            if args.llama_cpp:
                llama.append(llama_cpp(args.llama_cpp, args.model, text))
        a, b = statistics.median(ours), statistics.median(theirs)
        c = f"{statistics.median(llama):.2f} | {a / statistics.median(llama):.1f}" if llama else "- | -"
        print(f"| {pathlib.Path(path).name} | {a:.1f} | {b:.2f} | {a / b:.1f} | {c} |", flush=True)


if __name__ == "__main__":
    main()
