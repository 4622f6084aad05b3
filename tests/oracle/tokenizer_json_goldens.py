#!/usr/bin/env python3
"""Small tokenizer.json files of many shapes, and the ids that Hugging Face tokenizers gives with them.

    python3 tests/oracle/tokenizer_json_goldens.py                needs: tokenizers 0.23

Writes tests/parity/tokenizer_json/NAME.json and goldens.json: ids, decoded texts and hashes of ten odd strings in a row
(as tokenizer_goldens.py, which makes the strings' parts).
"""
import json
import pathlib
import struct

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

import hf_reference
from odd_strings import PARTS, odd_string
from tokenizer_goldens import fnv1a, texts

OUT = pathlib.Path(__file__).resolve().parent.parent / "parity" / "tokenizer_json"
STRINGS, GROUP, SIZE = 2_000, 10, 480
SPACE = "\u2581"


def trained(tokenizer, kind, **options):
    trainer = {"bpe": trainers.BpeTrainer, "unigram": trainers.UnigramTrainer, "wordpiece": trainers.WordPieceTrainer,
               "words": trainers.WordLevelTrainer}[kind]
    if kind != "words":
        options.setdefault("limit_alphabet" if kind != "unigram" else "max_piece_length", 120 if kind != "unigram" else 12)
    common = set("".join(PARTS["fragments"])) | {" "}  # a unigram model must hold every letter
    tokenizer.train_from_iterator(("".join(c for c in t if kind != "unigram" or c in common and ord(c) < 0x500)
                                   for t in texts()[::3] if len(t) < 400), trainer(
        vocab_size=SIZE, show_progress=False, **options))
    return tokenizer


def llama():
    """As Llama 2's: merges of every split, byte fallback, a blank before every text."""
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    made.pre_tokenizer = pre_tokenizers.Split(SPACE, "merged_with_next")  # for training alone
    trained(made, "bpe", special_tokens=special, limit_alphabet=150)
    state = json.loads(made.to_str())
    vocabulary = state["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    types = [3 if t in special[:3] else 6 if t in special else 1 for t in tokens]
    tokenizer = hf_reference.build_llama(tokens, types, [-float(i) for i in range(len(tokens))])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer


def mistral():
    """The same vocabulary with Metaspace, a blank before the first text only."""
    tokenizer = llama()
    tokenizer.normalizer = normalizers.Sequence([])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "first", split=False)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=True), AddedToken("[x]", normalized=False, lstrip=True)])
    return tokenizer


def gemma():
    """Blanks become U+2581, and a split at blanks that never happens."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    special = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trained(tokenizer, "bpe", special_tokens=special, limit_alphabet=100, max_token_length=8)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if not t["content"].startswith("<0x")]
    state["model"]["byte_fallback"] = True
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A <eos>", special_tokens=[("<bos>", 2), ("<eos>", 1)])
    return tokenizer


def t5():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "always")
    tokenizer.decoder = decoders.Metaspace(SPACE, "always")
    trained(tokenizer, "unigram", unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def xlm():
    tokenizer = t5()
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(SPACE, "always")])
    return tokenizer


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trained(tokenizer, "wordpiece", special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def byte_level(pattern, normalizer=None, prefix=False, behavior="isolated", invert=False):
    tokenizer = Tokenizer(models.BPE())
    steps = [] if pattern is None else [pre_tokenizers.Split(Regex(pattern), behavior, invert)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        steps + [pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=pattern is None)])
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trained(tokenizer, "bpe", special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    return tokenizer


def words():
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)])
    return trained(tokenizer, "words", special_tokens=["[UNK]"])


SHAPES = {
    "llama": llama, "mistral": mistral, "gemma": gemma, "t5": t5, "xlm": xlm, "bert": bert, "words": words,
    "qwen2": lambda: byte_level(hf_reference.QWEN2, normalizers.NFC()),
    "roberta": lambda: byte_level(None, prefix=True),
    "odd": lambda: byte_level(r"[a-m]+|\p{N}{2}(?=\s)|\s+$", normalizers.NFKD(), behavior="merged_with_next", invert=True),
    "contiguous": lambda: byte_level(r"[.,!?]", behavior="contiguous"),
}


def main():
    inputs = (OUT.parent / "tokenizer/llama.cpp.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    OUT.mkdir(exist_ok=True)
    goldens = {}
    for name, make in SHAPES.items():
        tokenizer = make()
        state = json.loads(tokenizer.to_str())
        if state["model"]["type"] == "Unigram":  # in single precision, as SentencePiece's
            state["model"]["vocab"] = [[t, struct.unpack("f", struct.pack("f", s))[0]] for t, s in state["model"]["vocab"]]
        tokenizer = Tokenizer.from_str(json.dumps(state))
        (OUT / f"{name}.json").write_text(json.dumps(state, ensure_ascii=False, separators=(",", ":")) + "\n")
        added = [t["content"] for t in state["added_tokens"] if not t["content"].startswith("<0x")]
        strings = [odd_string(i, added) for i in range(STRINGS)]
        encoded = [e.ids for e in tokenizer.encode_batch(strings, add_special_tokens=False)]
        hashes = []
        for first in range(0, STRINGS, GROUP):
            hash = 0x811C9DC5
            for ids in encoded[first:first + GROUP]:
                hash = fnv1a(b"".join(i.to_bytes(4, "little") for i in ids), hash)
            hashes.append(hash)
        ids = [tokenizer.encode(text).ids for text in inputs]
        goldens[name] = {"added": added, "ids": ids, "hashes": hashes,
                         "decoded": [tokenizer.decode(i, skip_special_tokens=False) for i in ids]}
        print(f"{name}: {tokenizer.get_vocab_size()} tokens, {sum(map(len, encoded))} ids", flush=True)
    (OUT / "goldens.json").write_text(json.dumps(goldens, separators=(",", ":")).replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
