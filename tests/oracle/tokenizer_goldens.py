#!/usr/bin/env python3
"""Trains a tiny vocabulary for each family of tokenizers and writes the ids that Hugging Face gives.

    python3 tests/oracle/tokenizer_goldens.py        needs: tokenizers 0.23, gguf, sentencepiece, protobuf

Writes to tests/parity/tokenizer:
    NAME.gguf         the vocabulary alone, as a GGUF file without tensors
    NAME.ids          FNV-1a (32 bits, little-endian) of the ids of odd strings 0..9999, of ten in a row where `group` is
    goldens.json      rules of the added tokens, and ids in full for llama.cpp's test strings and the first odd strings
"""
import io
import json
import pathlib
import struct
import sys

from gguf import GGUFWriter
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import hf_reference
from odd_strings import PARTS, odd_string

OUT = pathlib.Path(__file__).resolve().parent.parent / "parity" / "tokenizer"
STRINGS, IN_FULL, TRAINED_FROM = 10_000, 60, 1_000_000
SIZES = {"gpt-2": 900, "smollm": 700, "llama-bpe": 800, "qwen2": 1000}
MORE = ["gpt-4o", "tekken", "kimi-k2", "deepseek-v3", "deepseek-llm", "deepseek-coder", "falcon", "bloom", "viking",
        "qwen35", "bailingmoe", "seed-coder", "tiny_aya", "superbpe", "mpt", "afmoe"]  # smaller still
MORE_SIZE, GROUP = 420, 10
MODELS = ["llama", "t5", "bert", "gemma4", "whitespace"]
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


def texts():
    out = [odd_string(TRAINED_FROM + i) for i in range(4000)]
    for fragment in PARTS["fragments"]:
        out += [fragment * 2, " " + fragment] * 20
    return out


def train(pre):
    """(tokens, types, merges)"""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = hf_reference.pre_tokenizer(pre)
    trainer = trainers.BpeTrainer(vocab_size=SIZES.get(pre, MORE_SIZE), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(texts(), trainer)
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
    added = [(token, 3) for token in SPECIAL.get(pre, ["<|endoftext|>"])] + [(token, 4) for token in ADDED.get(pre, [])]
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
    special = SPECIAL.get(pre, ["<|endoftext|>"])
    writer.add_bos_token_id(tokens.index(special[0]))
    writer.add_eos_token_id(tokens.index(special[-1]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def small_charsmap():
    """A map of SentencePiece's kind: its own are 240 KB. A double array in Darts-clone's layout, then replacements."""
    rules = {chr(0xFF21 + i): chr(0x41 + i) for i in range(26)}
    rules |= {"\uFB01": "fi", "\u00A0": " ", "\u00AD": "", "e\u0301": "\u00E9", "e": "e", "\u2028": " ", "\n": " ",
              "\t": " ", "\u00BD": "1\u20442", "...": "\u2026"}
    texts, trie = b"", {}
    for source, target in rules.items():
        node = trie
        for byte in source.encode():
            node = node.setdefault(byte, {})
        node["value"] = len(texts)
        texts += target.encode() + b"\0"
    units, used, bases, queue = [0] * 4096, {0}, set(), [(trie, 0, 0)]
    while queue:
        node, at, label = queue.pop()
        children = sorted(key for key in node if key != "value")
        slots = children + [0] if "value" in node else children
        base = next(b for b in range(1, len(units)) if b not in bases and not any(b ^ slot in used for slot in slots))
        bases.add(base)
        used |= {base ^ slot for slot in slots}
        units[at] = (at ^ base) << 10 | ("value" in node) << 8 | label
        if "value" in node:
            units[base] = node["value"] | 1 << 31
        queue += [(node[child], base ^ child, child) for child in children]
    size = -(-(max(used) + 1) // 256) * 256
    return struct.pack(f"<I{size}I", 4 * size, *units[:size]) + texts


def train_sentencepiece(kind):
    """A vocabulary as hf_reference.read_vocabulary() gives one."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb2
    common = set("".join(PARTS["fragments"] + PARTS["punctuation"])) - set("\n\r\t") | {" "}  # it must know each letter
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter("".join(c for c in t if c in common) for t in texts() if len(t) < 2000),
        model_writer=model, normalization_rule_name="identity", vocab_size=700 if kind == "t5" else 900,
        model_type="unigram" if kind == "t5" else "bpe", byte_fallback=kind == "llama", character_coverage=0.98,
        user_defined_symbols=["<tool>", "\u2581\u2581\u2581"] if kind == "llama" else [], minloglevel=2,
        remove_extra_whitespaces=kind == "t5", num_threads=1, allow_whitespace_only_pieces=kind == "llama")
    proto = pb2.ModelProto.FromString(model.getvalue())
    types = [piece.type for piece in proto.pieces]
    tokens = [piece.piece.replace("\u2581", " ") if piece.type == 4 else piece.piece for piece in proto.pieces]
    return {"model": kind, "architecture": "llama", "pre": "default", "tokens": tokens, "types": types, "merges": [],
            "scores": [piece.score for piece in proto.pieces],
            "charsmap": small_charsmap() if kind == "t5" else None,
            "space_prefix": True, "extra_spaces": kind == "t5", "unknown": 0}


def train_bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(texts(), trainers.WordPieceTrainer(
        vocab_size=900, limit_alphabet=300, special_tokens=special, show_progress=False))
    vocabulary = tokenizer.get_vocab()
    written = sorted(vocabulary, key=vocabulary.get)
    tokens = [t if t in special else t[2:] if t.startswith("##") else "\u2581" + t for t in written]
    return {"model": "bert", "architecture": "bert", "pre": "default", "tokens": tokens, "merges": [], "scores": None,
            "types": [3 if t in special else 1 for t in written], "charsmap": None, "space_prefix": True,
            "extra_spaces": False, "unknown": 1}


def train_gemma4():
    """Merges over characters, U+2581 for blanks, byte tokens for what is no character of the vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator((t for t in texts() if len(t) < 300), trainers.BpeTrainer(
        vocab_size=1000, limit_alphabet=250, special_tokens=special, show_progress=False, max_token_length=12))
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return {"model": "gemma4", "architecture": "gemma4", "pre": "default", "tokens": tokens, "scores": None,
            "merges": [" ".join(merge) for merge in model["merges"]],
            "types": [3] * 5 + [6] * 256 + [1] * (len(tokens) - 261), "charsmap": None, "space_prefix": False,
            "extra_spaces": False, "unknown": 3}


def train_whitespace():
    """Merges over characters as they are, within words of lower case."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(texts(), trainers.BpeTrainer(
        vocab_size=700, limit_alphabet=250, special_tokens=special, show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return {"model": "whitespace", "architecture": "jina-bert-v2", "pre": "whitespace", "tokens": tokens, "scores": None,
            "merges": [" ".join(merge) for merge in model["merges"]], "types": [3] * 4 + [1] * (len(tokens) - 4),
            "charsmap": None, "space_prefix": False, "extra_spaces": False, "unknown": 3, "lowercase": True}


def write_vocabulary(name, vocab):
    writer = GGUFWriter(OUT / f"{name}.gguf", vocab["architecture"])
    writer.add_tokenizer_model(vocab["model"])
    writer.add_tokenizer_pre(vocab["pre"])
    writer.add_token_list(vocab["tokens"])
    writer.add_token_types(vocab["types"])
    if vocab["scores"]:
        writer.add_token_scores(vocab["scores"])
    if vocab["merges"]:
        writer.add_token_merges(vocab["merges"])
    if vocab["charsmap"]:
        writer.add_precompiled_charsmap(vocab["charsmap"])
    if vocab["model"] == "t5":
        writer.add_remove_extra_whitespaces(vocab["extra_spaces"])
    if vocab.get("lowercase"):
        writer.add_bool("tokenizer.ggml.normalizer.lowercase", True)
    if vocab["model"] == "bert":
        writer.add_uint32("tokenizer.ggml.cls_token_id", vocab["tokens"].index("[CLS]"))
        writer.add_uint32("tokenizer.ggml.seperator_token_id", vocab["tokens"].index("[SEP]"))
    writer.add_add_space_prefix(vocab["space_prefix"])
    writer.add_unk_token_id(vocab["unknown"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def fnv1a(data, state=0x811C9DC5):
    for byte in data:
        state = ((state ^ byte) * 0x01000193) & 0xFFFFFFFF
    return state


def write_ids(name, encoded, group):
    with open(OUT / f"{name}.ids", "wb") as out:
        for first in range(0, len(encoded), group):
            state = 0x811C9DC5
            for ids in encoded[first:first + group]:
                state = fnv1a(struct.pack(f"<{len(ids)}i", *ids), state)
            out.write(struct.pack("<I", state))


def golden(name, vocabulary, inputs, encode, decode, extra, group, rules=None):
    """encode: ids of many strings. decode: the text of ids, or None."""
    encoded = encode([odd_string(i, extra) for i in range(STRINGS)])
    write_ids(name, encoded, group)
    ids = encode(inputs)
    print(f"{name}: {sum(map(len, encoded))} ids", flush=True)
    out = {"vocabulary": f"{vocabulary}.gguf", "rules": rules or {}, "extra": extra, "ids": ids,
           "odd": encoded[:IN_FULL if group == 1 else GROUP]}
    if group > 1:
        out["group"] = group
    if decode:
        out["decoded"] = [decode(i) for i in ids]
    return out


def of_tokenizer(tokenizer):
    return (lambda strings: [e.ids for e in tokenizer.encode_batch(strings, add_special_tokens=False)],
            lambda ids: tokenizer.decode(ids, skip_special_tokens=False))


def main():
    only = sys.argv[1:]  # names of sets to make anew; the others stay as they are
    inputs = (OUT / "llama.cpp.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    sets = json.loads((OUT / "goldens.json").read_text())["sets"] if only else {}
    for pre in [*SIZES, *MORE]:
        if only and pre not in only:
            continue
        tokens, types, merges = train(pre)
        write_gguf(pre, tokens, types, merges)
        for name, rules in ((pre, None), (pre + "-rules", RULES.get(pre))):
            if name != pre and rules is None:
                continue
            encode, _ = of_tokenizer(hf_reference.build(pre, tokens, types, merges, rules))
            extra = SPECIAL[pre] + ADDED.get(pre, []) if rules or pre in SIZES and pre != "gpt-2" else []
            sets[name] = golden(name, pre, inputs, encode, None, extra, 1 if pre in SIZES else GROUP,
                                {str(tokens.index(token)): rule for token, rule in (rules or {}).items()})
    for kind in MODELS:
        if only and kind not in only:
            continue
        trainers_of = {"bert": train_bert, "gemma4": train_gemma4, "whitespace": train_whitespace}
        vocab = trainers_of[kind]() if kind in trainers_of else train_sentencepiece(kind)
        write_vocabulary(kind, vocab)
        if kind == "t5":
            sets[kind] = golden(kind, kind, inputs, hf_reference.Unigram(vocab).ids, None, [], GROUP)
            continue
        added = [t for t, k in zip(vocab["tokens"], vocab["types"]) if k in (3, 4)]
        sets[kind] = golden(kind, kind, inputs, *of_tokenizer(hf_reference.build_vocabulary(vocab)), added, GROUP)
    text = json.dumps({"inputs": inputs, "sets": sets}, ensure_ascii=True, separators=(",", ":"))
    (OUT / "goldens.json").write_text(text.replace('"ids":', '\n"ids":').replace('"odd":', '\n"odd":') + "\n")


if __name__ == "__main__":
    main()
