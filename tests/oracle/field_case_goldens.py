#!/usr/bin/env python3
"""What SentencePiece makes of tabs (field case 1): with tokens for runs of them, and where they fall back to bytes.

    python3 tests/oracle/field_case_goldens.py        needs: gguf, sentencepiece, protobuf

Writes tests/parity/tokenizer/tabs.gguf and field_case_1.json: {vocabulary: [[text, ids, decoded], ...]}.
"""
import json

import hf_reference
from tokenizer_goldens import OUT, write_vocabulary


def tabs():
    """Runs of tabs as pieces, as Gemma's vocabulary has them."""
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = ["\t", "\t\t", "\t\t\t\t", "\u2581", "\u2581\u2581", "t", "e", "s", "te", "st", "est", "test", "\u2581t", "\u2581test",
              "\t\u2581", "\n"]
    return {"model": "llama", "architecture": "llama", "pre": "default", "tokens": special + pieces, "merges": [],
            "types": [2, 3, 3] + [6] * 256 + [1] * len(pieces), "scores": [0.0] * 259 + [-float(i) for i in range(len(pieces))],
            "charsmap": None, "space_prefix": True, "extra_spaces": False, "unknown": 0}


def main():
    write_vocabulary("tabs", tabs())
    texts = ["\t" * n + "test" for n in range(1, 18)] + ["test" + "\t" * n for n in range(1, 8)]
    texts += ["\t\t\t\t\t\ttest\n\t\t\t\t\t\ttest\n", " \t \t  \t\ttest", "\t\t\t\t\t\t", "te\t\t\t\t\t\tst \t", "\t \t \t \t \t \ttest"]
    goldens = {}
    for name in ("tabs", "llama"):
        processor = hf_reference.sentencepiece_model(hf_reference.read_vocabulary(OUT / f"{name}.gguf"))
        goldens[name] = [[text, processor.EncodeAsIds(text), processor.DecodeIds(processor.EncodeAsIds(text))] for text in texts]
        print(f"{name}: {sum(len(ids) for _, ids, _ in goldens[name])} ids, {sum(t == back for t, _, back in goldens[name])} of "
              f"{len(texts)} texts come back")
    lines = ",\n".join(json.dumps(name) + ": " + json.dumps(cases, separators=(",", ":")) for name, cases in goldens.items())
    (OUT / "field_case_1.json").write_text("{" + lines + "}\n")


if __name__ == "__main__":
    main()
