#!/usr/bin/env python3
"""From a cold process to the first token of a short prompt, and the memory that takes.

    python3 bench/cold_start.py [--lithe build/release/apps/lithe/lithe] [--runs 9] [--tokens 32] MODEL.gguf...

Time: from starting the process to its first byte of text, the file being in the page cache (an untimed run puts it
there). Models take turns; medians, with the least beside them. Memory: VmRSS when the answer is under way and VmHWM, its
peak since the start, against 1.05 x (weights + keys and values in use) + 50 MB. MB are 10^6 bytes. Linux only.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

TEXT = ("The history of the city begins with a small village on the river, where merchants met to trade salt, wool and "
        "iron, and where the first bridge was built in stone after a flood had taken the old one away. ") * 8
ANSWER = 8  # tokens: enough to look at the process while it decodes


def ask(lithe, *args):
    return json.loads(subprocess.run([lithe, *map(str, args), "--json"], capture_output=True, text=True, check=True).stdout)


def prompt_of(lithe, model, tokens):
    """A text of exactly so many tokens."""
    ids = ask(lithe, "tokenize", "-m", model, TEXT)["ids"]
    for count in range(tokens, 0, -1):
        text = ask(lithe, "detokenize", "-m", model, "--no-special", *ids[:count])["text"]
        if len(ask(lithe, "tokenize", "-m", model, text)["ids"]) == tokens:
            return text
    raise SystemExit(f"{model}: no prompt of {tokens} tokens")


def memory(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return [int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM") if name in fields]


def run(lithe, model, prompt, threads):
    """Seconds to the first byte; VmRSS and VmHWM as last seen."""
    command = [lithe, "run", "-m", model, "--raw", "--temp", "0", "--ignore-eos", "-n", str(ANSWER), "-p", prompt]
    start = time.perf_counter()
    process = subprocess.Popen(command + (["-t", str(threads)] if threads else []), stdout=subprocess.PIPE)
    os.read(process.stdout.fileno(), 1)
    seconds = time.perf_counter() - start
    seen = []
    while True:
        now = memory(process.pid)
        if len(now) == 2:  # none of a process that has ended
            seen = now
        if not os.read(process.stdout.fileno(), 4096):
            break
    if process.wait() != 0:
        raise SystemExit(f"{model}: lithe run failed")
    return seconds, *seen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lithe", default="build/release/apps/lithe/lithe")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0, help="0: lithe's own choice")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()

    prompts = {model: prompt_of(args.lithe, model, args.tokens) for model in args.models}
    results = {model: [] for model in args.models}
    for model in args.models:
        run(args.lithe, model, prompts[model], args.threads)
    for _ in range(args.runs):
        for model in args.models:
            results[model].append(run(args.lithe, model, prompts[model], args.threads))

    print(f"| model | first of {args.tokens} tokens, s | least, s | weights, MB | VmRSS, MB | VmHWM, MB | allowed, MB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for model in args.models:
        seconds, resident, peak = zip(*results[model])
        facts = ask(args.lithe, "inspect", "-m", model)["memory"]
        in_use = facts["kv_bytes_per_token"] * (args.tokens + ANSWER)
        allowed = 1.05 * (facts["weights_bytes"] + in_use) + 50e6
        mb = [facts["weights_bytes"] / 1e6, statistics.median(resident) / 1e6, max(peak) / 1e6, allowed / 1e6]
        print(f"| {pathlib.Path(model).name} | {statistics.median(seconds):.3f} | {min(seconds):.3f} | "
              + " | ".join(f"{value:.0f}" for value in mb) + " |", flush=True)


if __name__ == "__main__":
    main()
