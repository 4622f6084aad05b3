#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_data.inc: the general category of every code point, as runs; and bert_data.inc.

The categories are read out of the regular-expression engine of Hugging Face tokenizers, because equal ids
need equal categories: Debian's PCRE2, utf8proc and Python each follow an older Unicode. A developer's tool;
run it (python3 tools/make_unicode_data.py, with `tokenizers` installed) when the reference moves to a newer one.
"""
import pathlib
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

# The order is that of enum class Category in src/tokenizer/unicode.h.
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
CHUNK = 4096


def categories():
    """Category index by code point."""
    points = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    found = [CATEGORIES.index("Cs")] * 0x110000
    for index, name in enumerate(CATEGORIES):
        if name == "Cs":
            continue
        keep = pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed", invert=True)
        for i in range(0, len(points), CHUNK):
            for piece, _ in keep.pre_tokenize_str("".join(map(chr, points[i:i + CHUNK]))):
                for char in piece:
                    found[ord(char)] = index
    return found


def changed_by_nfc():
    """Code points that NFC may change, reorder or join to what stands before: text without any is in NFC already.

    Asked of the reference, whose normaliser follows an older Unicode than its expressions: marks that it does not
    know stay where they are.
    """
    nfc = normalizers.NFC().normalize_str
    unsafe = [False] * 0x110000
    for c in range(0x300, 0x110000):
        if 0xD800 <= c <= 0xDFFF:
            continue
        char = chr(c)
        before_overlay, after_acute = "\u4e00" + char + "\u0334", "\u4e00\u0301" + char  # classes 1 and 230
        unsafe[c] |= nfc(char) != char or nfc(before_overlay) != before_overlay or nfc(after_acute) != after_acute
        parts = unicodedata.decomposition(char).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pair = "".join(chr(int(part, 16)) for part in parts)
            unsafe[int(parts[1], 16)] |= nfc(pair) != pair
    for c in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)):  # Hangul: composed by rule
        unsafe[c] = True
    return unsafe


def young_to_bert(found):
    """Code points whose category BERT's steps do not know: they follow a far older Unicode than the expressions do.

    Asked of the reference: marks that strip_accents leaves, punctuation that is not cut off, controls that stay.
    """
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True,
                                         lowercase=False)
    punctuation = pre_tokenizers.Punctuation("isolated")
    young = []
    for c in range(0x110000):
        name, char = CATEGORIES[found[c]], chr(c)
        if ((name == "Mn" and accents.normalize_str("a" + char) != "a") or
            (name[0] == "P" and len(punctuation.pre_tokenize_str("a" + char)) == 1) or
            (name == "Cf" and clean.normalize_str("a" + char) != "a")):
            if young and young[-1][1] == c - 1:
                young[-1][1] = c
            else:
                young.append([c, c])
    return young


def write_young(found):
    path = pathlib.Path(__file__).resolve().parent.parent / "src/tokenizer/bert_data.inc"
    lines, line = [], ""
    for first, last in young_to_bert(found):
        item = "{0x%X,0x%X}," % (first, last)
        if len(line) + len(item) > 118:
            lines.append(line)
            line = ""
        line += item
    path.write_text(f"// Made by tools/make_unicode_data.py with tokenizers {tokenizers.__version__}: do not edit.\n"
                    "// Marks, punctuation and format controls that BERT's steps do not know as such.\n" +
                    "\n".join(lines + [line]) + "\n")


def main():
    found = categories()
    write_young(found)
    unsafe = changed_by_nfc()
    values = [category | (32 if flag else 0) for category, flag in zip(found, unsafe)]
    runs, start = [], 0
    for c in range(1, 0x110001):
        if c == 0x110000 or values[c] != values[start]:
            runs.append((c - start) << 6 | values[start])
            start = c
    lines, line = [], ""
    for run in runs:
        item = f"{run},"
        if len(line) + len(item) > 118:
            lines.append(line)
            line = ""
        line += item
    lines.append(line)
    path = pathlib.Path(__file__).resolve().parent.parent / "src/tokenizer/unicode_data.inc"
    path.write_text(
        f"// Made by tools/make_unicode_data.py with tokenizers {tokenizers.__version__}: do not edit.\n"
        "// Runs of code points from U+0000 on: length << 6 | changed by NFC << 5 | general category.\n" +
        "\n".join(lines) + "\n")
    print(f"{path}: {len(runs)} runs")


if __name__ == "__main__":
    main()
