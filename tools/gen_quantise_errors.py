#!/usr/bin/env python3
"""Prints how far llama.cpp's quantised types are from a matrix of known numbers: the table of src/quantise/block_encoders_test.cpp.

    python tools/gen_quantise_errors.py LLAMA_QUANTIZE      # needs what gen_tiny_models.py needs

The committed figures are of the llama-quantize that bench/peers/llama_cpp builds (--pure, no importance matrix).
"""
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch

import gen_tiny_models as tiny

KINDS = {"Q4_0": "Q4_0", "Q4_1": "Q4_1", "Q5_0": "Q5_0", "Q5_1": "Q5_1", "Q8_0": "Q8_0", "Q2_K": "Q2_K", "Q3_K_S": "Q3_K", "Q4_K_S": "Q4_K",
         "Q5_K_S": "Q5_K", "Q6_K": "Q6_K"}


def numbers(count, tails):
    """Sums of four uniform numbers about zero, cubed for heavy tails; the same as in the test."""
    with np.errstate(over="ignore"):
        z = (np.arange(4 * count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    uniform = (z >> np.uint64(40)).astype(np.float64) / 2**24
    x = uniform.reshape(-1, 4).sum(1) - 2
    return (0.05 * (x**3 if tails else x)).astype(np.float32)


def main():
    tokenizer = tiny.make_tokenizer()
    for tails in (False, True):
        model = tiny.make_model("Llama", tiny.QUANT, seed=7)
        matrix = numbers(256 * 256, tails).reshape(256, 256)
        with torch.no_grad():
            model.model.layers[0].mlp.up_proj.weight.copy_(torch.from_numpy(matrix))
        with tempfile.TemporaryDirectory() as folder:
            plain = os.path.join(folder, "plain.gguf")
            tiny.save_gguf(plain, model, tokenizer)
            for kind, type_name in KINDS.items():
                out = os.path.join(folder, kind + ".gguf")
                subprocess.run([sys.argv[1], "--pure", plain, out, kind, "1"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                found = next(t for t in gguf.GGUFReader(out).tensors if t.name == "blk.0.ffn_up.weight")
                assert found.tensor_type.name == type_name, found.tensor_type
                values = gguf.quants.dequantize(found.data, found.tensor_type).reshape(256, 256)
                error = np.sqrt(np.mean((values.astype(np.float64) - matrix) ** 2) / np.mean(matrix.astype(np.float64) ** 2))
                print(f"    {{DType::k{type_name}, {str(tails).lower()}, {error:.6f}}},", flush=True)


if __name__ == "__main__":
    main()
