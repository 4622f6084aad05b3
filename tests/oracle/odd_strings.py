"""Odd strings for tokenizers: what real text holds rarely and pre-tokenizers stumble over.

String number i is the same here and in tests/parity/odd_strings.h, so that only ids need to be committed. The parts
are in tests/parity/tokenizer/odd_parts.json; excluded there are surrogates and the 13 numbers of Unicode 17, which
the reference's digit splitter knows and its expressions do not.
"""
import json
import pathlib

PARTS = json.loads((pathlib.Path(__file__).resolve().parent.parent / "parity/tokenizer/odd_parts.json").read_text())
MASK = (1 << 64) - 1


class SplitMix:
    """Vigna's splitmix64."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % bound

    def choice(self, items):
        return items[self.below(len(items))]


def upper_ascii(text):
    return "".join(chr(ord(c) - 32) if "a" <= c <= "z" else c for c in text)


def random_point(rng):
    while True:
        low, high = rng.choice(PARTS["ranges"])
        point = low + rng.below(high - low + 1)
        if not any(first <= point <= last for first, last in PARTS["excluded"]):
            return chr(point)


def part(rng, extra):
    if extra and rng.below(3) == 0:
        return rng.choice(extra)
    kind = rng.below(12)
    if kind <= 5:
        blank = " " if rng.below(3) == 0 else ""
        return blank + rng.choice(PARTS["fragments"])
    if kind == 6:
        times = 1 + rng.below(6)
        return rng.choice(PARTS["fragments"]) * times
    if kind == 7:
        times = 1 + rng.below(9)
        return rng.choice(PARTS["blanks"]) * times
    if kind == 8:
        times = rng.choice((1, 1, 2, 17))
        return random_point(rng) * times
    if kind == 9:
        return "".join(random_point(rng) for _ in range(1 + rng.below(6)))
    if kind == 10:
        return upper_ascii(rng.choice(PARTS["fragments"]))
    times = rng.choice((1, 2, 3, 40))
    return rng.choice(PARTS["punctuation"]) * times


def odd_string(number, extra=()):
    """`extra`: further parts, a third of all (the added tokens of a vocabulary)."""
    rng = SplitMix(number)
    count = rng.choice((1, 2, 3, 4, 5, 6, 8, 12, 16))
    return "".join(part(rng, extra) for _ in range(count))
