#!/usr/bin/env python3
"""Writes tests/golden/blocks/blocks.bin: what ggml makes of given values, and of given blocks.

Usage: make_block_golden.py PATH/TO/libggml-base.so   (any build of ggml without fast-math and FMA in that library)
Needs numpy and the PyPI package gguf, whose decoders must agree with ggml's.

The file: u32 count, float values[count]; then a record per format: name[8], u32 bytes, encoded blocks of the values,
u32 count2, u32 bytes2, random blocks, float decoded[count2]. All little-endian.
"""
import ctypes
import pathlib
import struct
import sys

import gguf
import numpy as np

FORMATS = {  # values and bytes a block, positions of f16 scales
    "q8_0": (32, 34, [0]), "q4_0": (32, 18, [0]), "q4_1": (32, 20, [0, 2]), "q5_0": (32, 22, [0]),
    "q5_1": (32, 24, [0, 2]), "q4_K": (256, 144, [0, 2]), "q5_K": (256, 176, [0, 2]), "q6_K": (256, 210, [208]),
    "q2_K": (256, 84, [80, 82]), "q3_K": (256, 110, [108]), "iq4_nl": (32, 18, [0]), "iq4_xs": (256, 136, [0]),
    "tq1_0": (256, 54, [52]), "tq2_0": (256, 66, [64]), "mxfp4": (32, 17, []),
}
DECODED = {  # the same of types that are only decoded; IQ1_M keeps its scale in the high bits of bytes 49, 51, 53, 55
    "iq1_s": (256, 50, [0]), "iq1_m": (256, 56, [54]), "iq2_xxs": (256, 66, [0]), "iq2_xs": (256, 74, [0]),
    "iq2_s": (256, 82, [0]), "iq3_xxs": (256, 98, [0]), "iq3_s": (256, 110, [0]), "q1_0": (128, 18, [0]),
    "q2_0": (64, 18, [0]), "nvfp4": (64, 36, []),
}
# Their row functions are simpler than what files are made with.
CHUNK = ["iq4_nl", "iq4_xs"]


def values(rng):
    n = 256
    parts = [
        rng.normal(size=n) * 0.02, rng.standard_cauchy(size=n), rng.uniform(0, 1, size=n), np.zeros(n),
        np.repeat([0.37, -2.5], n // 2), rng.normal(size=n) * np.exp(rng.uniform(-20, 8, size=n)),
        np.where(rng.random(n) < 0.95, 0, rng.normal(size=n)), rng.integers(-8, 8, size=n) / 8,
    ]
    return np.concatenate(parts).astype(np.float32)


def decoded_only(ggml, rng):
    """Random blocks, a record per type: name[8], u32 count, u32 bytes, blocks, the first 512 values as floats, and FNV-1a of
    the bits of all, for there are thousands of grid points."""
    out = bytearray()
    count = 16384
    for name, (elems, size, scales) in DECODED.items():
        blocks = rng.integers(0, 256, size=(count // elems, size), dtype=np.uint8)
        for at in scales:
            blocks[:, at + 1] &= 0xBB
        blocks = np.ascontiguousarray(blocks)
        decoded = np.zeros(count, np.float32)
        pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)
        getattr(ggml, f"dequantize_row_{name}")(pointer(blocks), pointer(decoded), ctypes.c_int64(count))
        out += name.encode().ljust(8, b"\0") + struct.pack("<II", count, blocks.size) + blocks.tobytes() + decoded[:512].tobytes()
        hash = 0xCBF29CE484222325
        for byte in decoded.tobytes():
            hash = (hash ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        out += struct.pack("<Q", hash)
        if name in ("q1_0", "q2_0"):  # not in the package
            continue
        other = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name.upper()]).reshape(-1)
        assert np.array_equal(decoded, other), name
    return out


def main():
    ggml = ctypes.CDLL(sys.argv[1])
    rng = np.random.default_rng(20240)
    x = values(rng)
    pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)
    out = bytearray(struct.pack("<I", x.size) + x.tobytes())
    for name, (elems, size, scales) in FORMATS.items():
        encoded = np.zeros(x.size // elems * size, np.uint8)
        if name in CHUNK:
            getattr(ggml, f"quantize_{name}")(pointer(x), pointer(encoded), ctypes.c_int64(1), ctypes.c_int64(x.size), None)
        else:
            getattr(ggml, f"quantize_row_{name}_ref")(pointer(x), pointer(encoded), ctypes.c_int64(x.size))
        count = 512
        blocks = rng.integers(0, 256, size=(count // elems, size), dtype=np.uint8)
        for at in scales:
            blocks[:, at + 1] &= 0xBB  # no infinity, no NaN
        blocks = np.ascontiguousarray(blocks)
        decoded = np.zeros(count, np.float32)
        getattr(ggml, f"dequantize_row_{name}")(pointer(blocks), pointer(decoded), ctypes.c_int64(count))
        other = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name.upper()]).reshape(-1)
        assert np.array_equal(decoded, other), name
        out += name.lower().encode().ljust(8, b"\0")
        out += struct.pack("<I", encoded.size) + encoded.tobytes()
        out += struct.pack("<II", count, blocks.size) + blocks.tobytes() + decoded.tobytes()
    folder = pathlib.Path(__file__).parent.parent / "golden/blocks"
    (folder / "blocks.bin").write_bytes(out)
    print(f"blocks.bin: {len(out)} bytes, {len(FORMATS)} formats")
    out = decoded_only(ggml, np.random.default_rng(20241))
    (folder / "decoded.bin").write_bytes(out)
    print(f"decoded.bin: {len(out)} bytes, {len(DECODED)} formats")


if __name__ == "__main__":
    main()
