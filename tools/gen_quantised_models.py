#!/usr/bin/env python3
"""Makes tiny models in the quantised forms that gen_tiny_models.py does not: GGUF types that gguf-py can read but not write, and folders as the
quantisation tools of others leave them. Beside each stands what the reference computes with the weights that its own code makes of them.

    python tools/gen_quantised_models.py [--out tests/golden/models] [--only NAME ...]

Needs what gen_tiny_models.py needs. Made with torch 2.15.0, transformers 5.24.0 and gguf 0.19.0.

    quant/MIXED.gguf   each matrix in another of the types that are indices into tables, trits or mixed scales: random blocks
"""
import argparse
import os
import sys

import gguf
import numpy as np
import torch
from gguf import quants

import gen_quant_tables
import gen_tiny_models as tiny

MIXED_TYPES = ["Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S",
               "IQ1_M"]


def random_matrix(type_name, shape, spread, rng):
    """Random blocks of a type whose values have about the standard deviation `spread`."""
    kind = gguf.GGMLQuantizationType[type_name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (shape[0] * shape[1] // elements, size), dtype=np.uint8)
    gen_quant_tables.set_scales(type_name, blocks, np.ones(len(blocks)))
    scale = spread / float(np.std(quants.dequantize(blocks, kind)))
    gen_quant_tables.set_scales(type_name, blocks, scale * rng.uniform(0.7, 1.3, len(blocks)))
    return blocks.reshape(shape[0], -1), kind


def save_mixed(out):
    settings = tiny.QUANT | dict(num_hidden_layers=2)
    model = tiny.make_model("Llama", settings, seed=9)
    path = os.path.join(out, "quant/MIXED.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    tiny.add_metadata(writer, model.config, tiny.make_tokenizer())
    rng = np.random.default_rng(9)
    matrices = 0
    for name, value in tiny.gguf_tensors(model):
        if value.ndim == 2:
            packed, kind = random_matrix(MIXED_TYPES[matrices % len(MIXED_TYPES)], value.shape, float(np.std(value)), rng)
            writer.add_tensor(name, packed, raw_dtype=kind)
            matrices += 1
        else:
            writer.add_tensor(name, value)
    assert matrices >= len(MIXED_TYPES), matrices
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tiny.load_dequantised(model, path)
    tiny.write_json(path.replace(".gguf", ".cases.json"), tiny.compute_cases(model, seed=9))


MODELS = {"MIXED": save_mixed}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(here, "../tests/golden/models"))
    parser.add_argument("--only", nargs="*", help="names of models")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, save in MODELS.items():
        if not args.only or name in args.only:
            save(args.out)
            print(name, flush=True)


if __name__ == "__main__":
    sys.exit(main())
