"""Writes tests/unit/tensor/fp8_golden.inc: what PyTorch makes of each code of its two 8-bit float formats, as f32 bits."""
import pathlib
import struct

import torch

OUT = pathlib.Path(__file__).resolve().parent.parent / "unit" / "tensor" / "fp8_golden.inc"


def table(name, dtype):
    values = torch.arange(256, dtype=torch.uint8).view(dtype).to(torch.float32)
    bits = [0x7FC00000 if v != v else struct.unpack("<I", struct.pack("<f", v))[0] for v in values.tolist()]
    lines = [", ".join(f"0x{b:08x}" for b in bits[i:i + 8]) + "," for i in range(0, 256, 8)]
    return f"constexpr std::uint32_t {name}[256] = {{\n" + "\n".join(lines) + "\n};\n"


OUT.write_text("// Made by tests/oracle/fp8_golden.py. NaN as 0x7fc00000.\n// clang-format off\n"
               + table("kE4M3", torch.float8_e4m3fn) + table("kE5M2", torch.float8_e5m2))
