#!/usr/bin/env python3
"""Times Lithe beside other engines on the same machine and prints the ratios of medians.

The engines take turns within each round, so that a machine whose speed drifts does it to all of them alike. Every
engine runs in a process of its own, loads its model, warms up, and is asked for one test at a time.

  bench/compare.py --lithe build/release/apps/lithe/lithe \\
    --model q8_0=SmolLM2-135M.Q8_0.gguf --model q4_0=SmolLM2-135M.Q4_0.gguf \\
    --peer llama.cpp=/opt/llama.cpp/build/bin --tests pp512,tg128,tg128@d2048,npl16 --rounds 5

--peer NAME=PATH   PATH is a folder with llama-bench and llama-batched-bench (llama.cpp and its relatives), or a program
                   that takes the same letters (-m -p -n -d -npl -t -r -o json) and prints the same JSON.
--peer-model NAME:FORMAT=PATH   that peer's own file for a format, where it cannot read the GGUF.
Tests: ppN (prefill of N tokens), tgN (N tokens decoded), tgN@dD (at depth D), nplB (B rows decoded together, aggregate).
"""
import argparse
import json
import pathlib
import re
import signal
import statistics
import subprocess
import sys

TEST = re.compile(r"^(?:(pp|tg)(\d+)(?:@d(\d+))?|npl(\d+))$")
NPL_PROMPT, NPL_TOKENS = 16, 64


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
    return done.stdout


def bench_json(program, model, threads, test, extra):
    """One number from a program with llama-bench's letters and JSON."""
    kind, count, depth, npl = TEST.match(test).groups()
    command = [*program, "-m", model, "-t", threads, "-r", 1, "-o", "json", *extra]
    if npl:
        command += ["-p", 0, "-n", NPL_TOKENS, "-d", NPL_PROMPT, "-npl", npl]
    else:
        command += ["-p", count if kind == "pp" else 0, "-n", count if kind == "tg" else 0]
        if depth:
            command += ["-d", depth]
    out = run(command)
    rows = json.loads(out[out.index("["):])
    return rows[-1]["avg_ts"]


def batched_bench(folder, model, threads, npl):
    """llama-batched-bench prints a Markdown table; S_TG is the aggregate decode speed."""
    context = int(npl) * (NPL_PROMPT + NPL_TOKENS) + 64
    out = run([folder / "llama-batched-bench", "-m", model, "-c", context, "-b", 2048, "-ub", 512, "-npp", NPL_PROMPT,
               "-ntg", NPL_TOKENS, "-npl", npl, "-t", threads])
    header = cells = None
    for line in out.splitlines():
        fields = [f.strip() for f in line.strip().strip("|").split("|")]
        if "S_TG t/s" in fields:
            header = fields
        elif header and len(fields) == len(header) and fields[0].isdigit():
            cells = fields
    return float(cells[header.index("S_TG t/s")])


class Engine:
    def __init__(self, name, path, extra=()):
        self.name, self.path, self.extra = name, path, list(extra)
        self.models = {}

    def measure(self, fmt, model, threads, test):
        model = self.models.get(fmt, model)
        if self.path.is_dir():
            if test.startswith("npl"):
                return batched_bench(self.path, model, threads, test[3:])
            return bench_json([self.path / "llama-bench"], model, threads, test, self.extra)
        program = [self.path, "bench"] if self.name == "lithe" else [self.path]
        return bench_json(program, model, threads, test, self.extra)


class Stopped(Exception):
    """Asked to end early: what has been measured is still printed."""


def stop(*_):
    raise Stopped


def named_text(text):
    name, _, value = text.partition("=")
    if not value:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


def named(text):
    name, value = named_text(text)
    return name, pathlib.Path(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lithe", type=pathlib.Path, default=pathlib.Path("build/release/apps/lithe/lithe"))
    parser.add_argument("--args", type=named_text, action="append", default=[], metavar="NAME=ARGS",
                        help="more arguments for one engine, e.g. --args='lithe=-ctk q8_0 -ctv q8_0'")
    parser.add_argument("--peer", type=named, action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--peer-model", type=named, action="append", default=[], metavar="NAME:FORMAT=PATH")
    parser.add_argument("--model", type=named, action="append", required=True, metavar="FORMAT=PATH")
    parser.add_argument("--tests", default="pp512,tg128")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path, help="also write every sample there")
    args = parser.parse_args()
    tests = args.tests.split(",")
    for test in tests:
        if not TEST.match(test):
            parser.error(f"'{test}' is not a test: ppN, tgN, tgN@dD or nplB")

    more = {name: text.split() for name, text in args.args}
    engines = [Engine(name, path, more.get(name, ())) for name, path in [("lithe", args.lithe), *args.peer]]
    for key, path in args.peer_model:
        name, _, fmt = key.partition(":")
        for engine in engines:
            if engine.name == name:
                engine.models[fmt] = path

    samples = {}
    signal.signal(signal.SIGTERM, stop)
    try:
        measure(args, tests, engines, samples)
    except (Stopped, KeyboardInterrupt):
        print("stopped early", file=sys.stderr)
    report(args, tests, engines, samples)


def measure(args, tests, engines, samples):
    """Fills samples[format, test, engine] = [tok/s per round], or None once it has failed."""
    for round_number in range(args.rounds):
        for fmt, model in args.model:
            for test in tests:
                for engine in engines:
                    key = (fmt, test, engine.name)
                    if samples.get(key, 0) is None:
                        continue
                    try:
                        samples.setdefault(key, []).append(engine.measure(fmt, model, args.threads, test))
                    except (RuntimeError, OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
                        print(f"{engine.name} {fmt} {test}: {error}", file=sys.stderr)
                        samples[key] = None
        print(f"round {round_number + 1} of {args.rounds} done", file=sys.stderr)


def report(args, tests, engines, samples):
    median = {key: statistics.median(values) for key, values in samples.items() if values}
    names = [engine.name for engine in engines]
    print("| model | test | " + " | ".join(f"{n} tok/s" for n in names) + " | best peer | ratio |")
    print("|---|---|" + "---:|" * len(names) + "---|---:|")
    for fmt, _ in args.model:
        for test in tests:
            own = median.get((fmt, test, "lithe"))
            peers = {n: median[fmt, test, n] for n in names[1:] if (fmt, test, n) in median}
            best = max(peers, key=peers.get) if peers else None
            cells = [f"{median[fmt, test, n]:.1f}" if (fmt, test, n) in median else "-" for n in names]
            ratio = f"{own / peers[best]:.2f}" if own and best else "-"
            print(f"| {fmt} | {test} | " + " | ".join(cells) + f" | {best or '-'} | {ratio} |")
    if args.json:
        args.json.write_text(json.dumps([{"model": f, "test": t, "engine": e, "samples": s}
                                         for (f, t, e), s in samples.items()], indent=1))


if __name__ == "__main__":
    main()
