#!/usr/bin/env python3
"""Writes src/tensor/iq_grids.cpp: which points the grids of GGUF's IQ types consist of. Needs the PyPI package gguf.

A grid's points lie in the ascending order of their coordinates, read as digits with the first as the lowest. So a set of
bits says it all: bit k is set where the number k, in that notation, is a point.
"""
import pathlib
import sys

import numpy as np
from gguf import quants

GRIDS = [("iq2_xxs", quants.IQ2_XXS), ("iq2_xs", quants.IQ2_XS), ("iq2_s", quants.IQ2_S), ("iq1", quants.IQ1_S),
         ("iq3_xxs", quants.IQ3_XXS), ("iq3_s", quants.IQ3_S)]


def words(quant):
    quant.init_grid()
    points = quant.grid.reshape(quant.grid_shape)
    levels = np.unique(points)
    digits = np.searchsorted(levels, points)
    numbers = (digits * len(levels) ** np.arange(points.shape[1])).sum(axis=1)
    assert (np.diff(numbers) > 0).all()
    bits = np.zeros((len(levels) ** points.shape[1] + 63) // 64 * 64, np.uint8)
    bits[numbers] = 1
    return np.packbits(bits, bitorder="little").view(np.uint64), len(numbers), len(levels), points.shape[1]


def main():
    out = ["// Made by tests/oracle/make_iq_grids.py: see iq_grids.h.", '#include "tensor/iq_grids.h"', "",
           "namespace lithe::codec {", ""]
    for name, quant in GRIDS:
        data, count, base, digits = words(quant)
        out.append(f"// {count} points of {digits} digits to base {base}.")
        out.append(f"const std::array<std::uint64_t, {len(data)}> k_{name}_points = {{")
        for i in range(0, len(data), 5):
            out.append("    " + " ".join(f"0x{int(word):016x}," for word in data[i:i + 5]))
        out.append("};\n")
    out.append("}  // namespace lithe::codec")
    path = pathlib.Path(__file__).parent.parent.parent / "src/tensor/iq_grids.cpp"
    if len(sys.argv) > 1:
        path = pathlib.Path(sys.argv[1])
    path.write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
