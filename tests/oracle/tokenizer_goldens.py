#!/usr/bin/env python3
"""Trains a tiny vocabulary for each family of pre-tokenizers and writes the ids that Hugging Face gives.

    python3 tests/oracle/tokenizer_goldens.py        needs: tokenizers 0.23, gguf

Writes to tests/parity/tokenizer:
    NAME.gguf         the vocabulary alone, as a GGUF file without tensors
    NAME.ids          FNV-1a (32 bits, little-endian) of the ids of odd strings 0..9999
    goldens.json      rules of the added tokens, and ids in full for llama.cpp's test strings and the first odd strings
"""
import json
import pathlib
import struct

from gguf import GGUFWriter
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import hf_reference
from odd_strings import PARTS, odd_string

OUT = pathlib.Path(__file__).resolve().parent.parent / "parity" / "tokenizer"
STRINGS, IN_FULL, TRAINED_FROM = 10_000, 60, 1_000_000
SIZES = {"gpt-2": 900, "smollm": 700, "llama-bpe": 800, "qwen2": 1000}
SPECIAL = {
    "gpt-2": ["<|endoftext|>"],
    "smollm": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "llama-bpe": ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    "qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
}
ADDED = {"qwen2": ["<tool_call>", "</tool_call>", "  ", "<t", "<tool"]}
MISSING = {"smollm": [4, 6, 19, 20, 22, 29, 192, 193, 241, 245, 246, 247, 248, 249, 250, 251, 252, 253, 254, 255]}
# The same vocabulary once more, with rules that GGUF cannot hold.
RULES = {
    "qwen2": {
        "<|im_start|>": {"rstrip": True},
        "<|im_end|>": {"lstrip": True, "rstrip": True},
        "<tool_call>": {"single_word": True},
        "</tool_call>": {"lstrip": True, "single_word": True},
    }
}


def alphabet():
    """The byte-level alphabet in the order of the bytes."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in visible]
    return [chr(b) if b in visible else chr(256 + hidden.index(b)) for b in range(256)]


def train(pre):
    """(tokens, types, merges)"""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = hf_reference.pre_tokenizer(pre)
    trainer = trainers.BpeTrainer(vocab_size=SIZES[pre], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    texts = [odd_string(TRAINED_FROM + i) for i in range(4000)]
    for fragment in PARTS["fragments"]:
        texts += [fragment * 2, " " + fragment] * 20
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [" ".join(merge) if isinstance(merge, list) else merge for merge in model["merges"]]
    letters = alphabet()
    missing = [letters[byte] for byte in MISSING.get(pre, [])]
    merges = [merge for merge in merges if not any(letter in merge for letter in missing)]
    tokens = [letter for letter in letters if letter not in missing]
    tokens += [merge.replace(" ", "") for merge in merges]
    assert len(set(tokens)) == len(tokens)
    if pre == "llama-bpe":
        merges = merges_of_ranks(tokens)
        tokens += ["Ġtokenization", "unreachable", "ä½łå¥½ä¸ĸçķĮ", "!!!!!!!!!!!!"]  # words that no merges build
    types = [1] * len(tokens)
    added = [(token, 3) for token in SPECIAL[pre]] + [(token, 4) for token in ADDED.get(pre, [])]
    tokens += [token for token, _ in added]
    types += [kind for _, kind in added]
    return tokens, types, merges


def merges_of_ranks(tokens):
    """As vocabularies that come as ranks only are converted: every split of every token, by the token's rank."""
    rank = {token: i for i, token in enumerate(tokens)}
    merges = []
    for token in tokens:
        splits = [(token[:i], token[i:]) for i in range(1, len(token))]
        splits = [(left, right) for left, right in splits if left in rank and right in rank]
        merges += [f"{left} {right}" for left, right in sorted(splits, key=lambda s: (rank[s[0]], rank[s[1]]))]
    return merges


def write_gguf(pre, tokens, types, merges):
    writer = GGUFWriter(OUT / f"{pre}.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index(SPECIAL[pre][0]))
    writer.add_eos_token_id(tokens.index(SPECIAL[pre][-1]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def fnv1a(data, state=0x811C9DC5):
    for byte in data:
        state = ((state ^ byte) * 0x01000193) & 0xFFFFFFFF
    return state


def main():
    inputs = (OUT / "llama.cpp.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    goldens = {"inputs": inputs, "sets": {}}
    for pre in SIZES:
        tokens, types, merges = train(pre)
        write_gguf(pre, tokens, types, merges)
        for name, rules in ((pre, None), (pre + "-rules", RULES.get(pre))):
            if name != pre and rules is None:
                continue
            reference = hf_reference.build(pre, tokens, types, merges, rules)
            extra = SPECIAL[pre] + ADDED.get(pre, []) if rules or pre != "gpt-2" else []
            strings = [odd_string(i, extra) for i in range(STRINGS)]
            encoded = [e.ids for e in reference.encode_batch(strings, add_special_tokens=False)]
            with open(OUT / f"{name}.ids", "wb") as out:
                for ids in encoded:
                    out.write(struct.pack("<I", fnv1a(struct.pack(f"<{len(ids)}i", *ids))))
            goldens["sets"][name] = {
                "vocabulary": f"{pre}.gguf",
                "rules": {str(tokens.index(token)): rule for token, rule in (rules or {}).items()},
                "extra": extra,
                "ids": [reference.encode(text, add_special_tokens=False).ids for text in inputs],
                "odd": encoded[:IN_FULL],
            }
            print(f"{name}: {len(tokens)} tokens, {len(merges)} merges, {sum(map(len, encoded))} ids")
    text = json.dumps(goldens, ensure_ascii=True, separators=(",", ":"))
    (OUT / "goldens.json").write_text(text.replace('"ids":', '\n"ids":').replace('"odd":', '\n"odd":') + "\n")


if __name__ == "__main__":
    main()
