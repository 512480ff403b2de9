#!/usr/bin/env python3
"""Writes what weir takes over from the GGUF weight formats as numbers, and values to hold its decoding to. Needs the packages numpy and
gguf (0.19).

    tools/gen_quant_tables.py        # src/tensor/iq_grids.cpp, tests/golden/quants/TYPE.bin

TYPE.bin: random blocks, then the F32 values that gguf.quants makes of them: u32 number of bytes, bytes, floats.
"""
import pathlib

import gguf
import numpy as np
from gguf import quants

ROOT = pathlib.Path(__file__).resolve().parent.parent
TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4",
         "NVFP4", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"]
# Where a block's f16 scales are.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0],
          "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0]}
ELEMENTS = 1024  # values of each file


def grid_lines(name, cls, bits):
    """A grid as one number per entry: the index of each of its values among grid_map, `bits` bits each."""
    cls.init_grid()
    grid = np.array(cls.grid).reshape(cls.grid_shape)
    lines, text = [], "  "
    for entry in grid:
        number = sum(list(cls.grid_map).index(value) << (bits * i) for i, value in enumerate(entry))
        word = f"0x{number:04x},"
        if len(text) + 1 + len(word) > 120:
            lines.append(text)
            text = "  "
        text += (" " if text.strip() else "  ") + word
    lines.append(text)
    return [f"const std::uint16_t {name}[{len(grid)}] = {{"] + [line.replace("   ", "    ", 1).rstrip() for line in lines] + ["};"]


def write_grids():
    grids = [("kIq2XxsGrid", quants.IQ2_XXS, 2), ("kIq2XsGrid", quants.IQ2_XS, 2), ("kIq2SGrid", quants.IQ2_S, 2),
             ("kIq3XxsGrid", quants.IQ3_XXS, 3), ("kIq3SGrid", quants.IQ3_S, 3), ("kIq1Grid", quants.IQ1_S, 2)]
    text = ["// Made by tools/gen_quant_tables.py.", '#include "tensor/iq_grids.h"', "", "namespace weir::tensor {", ""]
    for grid in grids:
        text += grid_lines(*grid) + [""]
    text += ["}  // namespace weir::tensor", ""]
    (ROOT / "src/tensor/iq_grids.cpp").write_text("\n".join(text))
    signs = np.frombuffer(quants.IQ2_XXS.ksigns, dtype=np.uint8)
    assert all(int(s) == i | (bin(i).count("1") & 1) << 7 for i, s in enumerate(signs)), "the eighth sign is the parity of seven"


def set_scales(name, blocks, scales):
    """Writes a scale into each block (and the same as its minimum): as an f16, or as what the type has instead."""
    halves = scales.astype(np.float16)
    for at in HALVES.get(name, []):
        blocks[:, at:at + 2] = halves.view(np.uint8).reshape(-1, 2)
    if name == "IQ1_M":  # the f16's quarters are the upper halves of every second byte
        for i in range(4):
            at = 48 + 2 * i + 1
            blocks[:, at] = (blocks[:, at] & 15) | ((halves.view(np.uint16) >> (4 * i)) & 15).astype(np.uint8) << 4
    if name == "MXFP4":
        blocks[:, 0] = np.clip(np.round(np.log2(np.abs(scales))) + 128, 0, 250)
    if name == "NVFP4":
        blocks[:, :4] = quants.NVFP4.fp32_to_ue4m3(2 * np.abs(scales).astype(np.float32))[:, None]


def write_values():
    rng = np.random.default_rng(5)
    folder = ROOT / "tests/golden/quants"
    folder.mkdir(parents=True, exist_ok=True)
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (ELEMENTS // elements, size), dtype=np.uint8)
        scales = 0.02 * rng.standard_normal(len(blocks))
        scales[0] = 6e-6  # a subnormal f16
        set_scales(name, blocks, scales)
        if name == "MXFP4":
            blocks[:4, 0] = [0, 1, 2, 250]
        if name == "NVFP4":
            blocks[:2, :4] = [[0, 0x7F, 1, 0x7E], [2, 7, 8, 0x2F]]
        values = quants.dequantize(blocks, kind).astype(np.float32)
        assert np.isfinite(values).all(), name
        data = blocks.tobytes()
        (folder / f"{name}.bin").write_bytes(np.uint32(len(data)).tobytes() + data + values.tobytes())


if __name__ == "__main__":
    write_grids()
    write_values()
