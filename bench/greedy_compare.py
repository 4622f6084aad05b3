#!/usr/bin/env python3
"""Greedy answers beside another engine's, token by token, in full f32: the same model must give the same words.

  bench/greedy_compare.py --lithe build/release/apps/lithe/lithe --model SmolLM2-135M.F32.gguf \\
    --peer llama.cpp=/opt/llama.cpp/build/bin/llama-completion
  bench/greedy_compare.py --model SmolLM2-135M.F32.gguf --peer-json answers.json

--peer NAME=PATH   A program with llama.cpp's letters (-m -p -n -t --temp -ctk -ctv) that prints the answer: texts are
                   compared, and the token of ours at which they part is named.
--peer-json FILE   [{"prompt": TEXT, "out_ids": [...], "ids": [...]}, ...]: what some engine answered, without the end
                   token; token ids are compared, those of the prompt too where "ids" are given. Its prompts are used.
--prompts FILE     A JSON list of texts, instead of the 20 below. Prompts are continued as they are, without a chat
                   template; control tokens written in them count.

Where answers part, the difference between our two largest logits there is printed: a near tie is rounding, a wide gap is
a fault. Ends with 1 when any answer differs.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "Water boils at a temperature of",
    "The three primary colours are",
    "Dear Sir or Madam, I am writing to",
    "Photosynthesis is the process by which",
    "1, 1, 2, 3, 5, 8, 13,",
    "Q: What is the largest planet of the solar system?\nA:",
    "In 1969, Neil Armstrong",
    "To bake bread you need flour, water, yeast and",
    "def fibonacci(n):\n    ",
    "#include <stdio.h>\n\nint main(void) {\n",
    "SELECT name, COUNT(*) FROM users",
    "for (let i = 0; i < 10; i++) {",
    "import numpy as np\n\ndef softmax(x):\n",
    "{\"name\": \"Alice\", \"age\": 30, \"city\":",
    "中国的首都是",
    "今天天气很好，我们",
    "从前有座山，山上有座庙，",
    "Translate to Chinese: Good morning! ->",
]
F32 = ["--precision", "f32", "-ctk", "f32", "-ctv", "f32"]
PEER = ["--temp", "0", "-ctk", "f32", "-ctv", "f32", "-fa", "off", "-no-cnv", "--no-display-prompt", "--no-warmup",
        "--no-escape"]
PEER_END = "[end of text]"


def run(command):
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, capture_output=True, timeout=1800)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {done.stderr.decode(errors='replace').strip().splitlines()[-1:] or done.returncode}")
    return done.stdout.decode(errors="replace")


class Lithe:
    def __init__(self, program, model, threads):
        self.program, self.model, self.threads = program, model, threads

    def command(self, name, *args):
        return run([self.program, name, "-m", self.model, *args])

    def answer(self, prompt, tokens):
        return json.loads(self.command("run", "--raw", "--json", "--temp", "0", "-n", tokens, "-t", self.threads, *F32, "-p", prompt))

    def ids(self, text):
        return json.loads(self.command("tokenize", "--json", "--", text))["ids"]

    def text(self, ids):
        return self.command("detokenize", *ids) if ids else ""

    def gap(self, ids):
        """The two likeliest tokens after `ids`, and how far their logits are apart."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "logits.npy"
            self.command("eval", "--ids", ",".join(map(str, ids)), "--logits-out", path, "-t", self.threads, *F32)
            data = path.read_bytes()
        start = 10 + struct.unpack_from("<H", data, 8)[0]        # NumPy's format 1.0
        vocab = (len(data) - start) // 4 // len(ids)
        row = struct.unpack_from(f"<{vocab}f", data, len(data) - 4 * vocab)
        first, second = sorted(range(vocab), key=row.__getitem__)[:-3:-1]
        return first, second, row[first] - row[second]


def peer_text(program, model, prompt, tokens, threads):
    text = run([program, "-m", model, "-n", tokens, "-t", threads, *PEER, "-p", prompt]).rstrip("\n")
    return text[:-len(PEER_END)].rstrip(" \n") if text.endswith(PEER_END) else text


def parting_of_ids(ours, theirs):
    return next((i for i in range(max(len(ours), len(theirs))) if ours[i:i + 1] != theirs[i:i + 1]), None)


def parting_of_texts(lithe, ours, theirs):
    """The first of our tokens with which our text is no longer a beginning of theirs."""
    if ours["text"].rstrip() == theirs.rstrip():
        return None
    low, high = 0, len(ours["tokens"])
    while low < high:
        middle = (low + high + 1) // 2
        if theirs.startswith(lithe.text(ours["tokens"][:middle])):
            low = middle
        else:
            high = middle - 1
    return low


def named(text):
    name, _, value = text.partition("=")
    if not value:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=PATH")
    return name, pathlib.Path(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lithe", type=pathlib.Path, default=pathlib.Path("build/release/apps/lithe/lithe"))
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--peer-model", type=pathlib.Path, help="the peer's file, where it is another one")
    parser.add_argument("--prompts", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("-t", "--threads", type=int, default=2)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--peer", type=named, metavar="NAME=PATH")
    source.add_argument("--peer-json", type=pathlib.Path)
    args = parser.parse_args()
    lithe = Lithe(args.lithe, args.model, args.threads)
    known = json.loads(args.peer_json.read_text()) if args.peer_json else None
    prompts = json.loads(args.prompts.read_text()) if args.prompts else PROMPTS
    if known is not None:
        if args.prompts:
            known = [entry for entry in known if entry["prompt"] in prompts]
        prompts = [entry["prompt"] for entry in known]

    print("| prompt | tokens | answer | parts at | ours, second | gap |\n|---|---:|---|---:|---|---:|")
    equal = tokens = 0
    for number, prompt in enumerate(prompts):
        ours = lithe.answer(prompt, args.tokens)
        ids = lithe.ids(prompt)
        if known is not None:
            theirs = known[number]
            if theirs.get("ids", ids) != ids:
                sys.exit(f"prompt {number + 1}: its token ids differ: {ids} and {theirs['ids']}")
            parting = parting_of_ids(ours["tokens"], theirs["out_ids"][:args.tokens])
        else:
            theirs = peer_text(args.peer[1], args.peer_model or args.model, prompt, args.tokens, args.threads)
            parting = parting_of_texts(lithe, ours, theirs)
        tokens += len(ours["tokens"])
        equal += parting is None
        shown = json.dumps(prompt[-32:], ensure_ascii=False).replace("|", "\\|")
        if parting is None:
            print(f"| {shown} | {len(ours['tokens'])} | equal | | | |", flush=True)
            continue
        first, second, gap = lithe.gap(ids + ours["tokens"][:parting])
        print(f"| {shown} | {len(ours['tokens'])} | differs | {parting} | {first}, {second} | {gap:.6f} |", flush=True)
    print(f"\n{equal} of {len(prompts)} equal, {tokens} tokens")
    sys.exit(equal != len(prompts))


if __name__ == "__main__":
    main()
