#!/usr/bin/env python3
"""Makes tiny models in the quantised forms that gen_tiny_models.py does not: GGUF types that gguf-py can read but not write, and folders as the
quantisation tools of others leave them. Beside each stands what the reference computes with the weights that its own code makes of them.

    python tools/gen_quantised_models.py [--out tests/golden/models] [--only NAME ...]

Needs what gen_tiny_models.py needs; and for the folders compressed-tensors, autoawq and gptqmodel, of which the parts that are used run
without most of what they depend on (pip install --no-deps). Made with torch 2.13.0, transformers 5.24.0, gguf 0.19.0, compressed-tensors
0.20.1, autoawq 0.2.9 and gptqmodel 7.7.0.

    quant/MIXED.gguf   each matrix in another of the types that are indices into tables, trits or mixed scales: random blocks
    quant-*/           a model whose projections are quantised; the rest is BF16
"""
import argparse
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from unittest import mock

import gguf
import numpy as np
import torch
import transformers
from gguf import quants
from safetensors.torch import load_file, save_file

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


# name -> (configuration class, settings beside tiny.BASE, how its projections are quantised, quantization_config)
SMALL = dict(head_dim=16, hidden_size=128, intermediate_size=96, num_hidden_layers=1, tie_word_embeddings=True)
BLOCKS = dict(head_dim=32, hidden_size=256, intermediate_size=128, num_hidden_layers=1, tie_word_embeddings=True)
ODD = dict(head_dim=8, hidden_size=64, intermediate_size=48, num_hidden_layers=2, tie_word_embeddings=True)


def fp8_block(name, weight, rng):
    """DeepSeek's way, dequantised by transformers."""
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    rows, cols = weight.shape
    blocks = torch.nn.functional.pad(weight, (0, -cols % 128, 0, -rows % 128)).unflatten(0, (-1, 128)).unflatten(2, (-1, 128))
    scale = blocks.abs().amax(dim=(1, 3)) / 448
    codes = (blocks / scale[:, None, :, None]).flatten(2).flatten(0, 1)[:rows, :cols].contiguous().to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale_inv": scale}, Fp8Dequantize(None)._dequantize_one(codes, scale, torch.float32)


def mxfp4(name, weight, rng):
    """gpt-oss's experts [experts, inputs, outputs], packed here by rows of outputs, unpacked by transformers."""
    from transformers.integrations.mxfp4 import FP4_VALUES, convert_moe_packed_tensors

    blocks = weight.transpose(1, 2).unflatten(2, (-1, 32))
    exponent = torch.floor(torch.log2(blocks.abs().amax(-1))) - 2
    values = torch.tensor(FP4_VALUES)
    codes = (torch.ldexp(blocks, -exponent[..., None])[..., None] - values).abs().argmin(-1).to(torch.uint8)
    state = {"_blocks": codes[..., 0::2] | codes[..., 1::2] << 4, "_scales": (exponent + 127).to(torch.uint8)}
    return state, convert_moe_packed_tensors(state["_blocks"], state["_scales"], dtype=torch.float32)


def compressed(**weights):
    """compressed-tensors' own compressor and decompressor."""

    def quantise(name, weight, rng):
        from compressed_tensors.compressors.naive_quantized.base import FloatQuantizationCompressor, IntQuantizationCompressor
        from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
        from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
        from compressed_tensors.quantization.utils import calculate_qparams

        args = QuantizationArgs(**{k: v for k, v in weights.items() if k != "packed"})
        grouped = weight.unflatten(1, (-1, args.group_size)) if args.strategy == "group" else weight[:, None]
        if args.strategy == "tensor":
            low, high = weight.min().reshape(1), weight.max().reshape(1)
        else:
            low, high = grouped.amin(-1), grouped.amax(-1)
        scale, zero = calculate_qparams(low, high, args)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        kind = PackedQuantizationCompressor if weights.get("packed") else FloatQuantizationCompressor if args.type == "float" else IntQuantizationCompressor
        state = kind.compress({"weight": weight, "weight_scale": scale, "weight_zero_point": zero.to(torch.int8)}, scheme)
        return state, kind.decompress(state, scheme)["weight"].float()

    return quantise


def awq(name, weight, rng):
    """Packed here in AWQ's order, unpacked and dequantised by AutoAWQ (in 32 bits)."""
    # The one file: the package itself imports much more.
    path = importlib.metadata.distribution("autoawq").locate_file("awq/utils/packing_utils.py")
    spec = importlib.util.spec_from_file_location("packing_utils", path)
    packing_utils = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(packing_utils)
    group = 32
    cells = weight.unflatten(1, (-1, group))
    low, high = cells.amin(-1), cells.amax(-1)
    scale = ((high - low) / 15).half()
    zero = (-low / scale.float()).round().clamp(0, 15)
    codes = (cells / scale.float()[..., None] + zero[..., None]).round().clamp(0, 15).flatten(1)

    def pack(values):  # [lines, outputs]
        words = values.to(torch.int64).unflatten(1, (-1, 8))[:, :, packing_utils.AWQ_ORDER]
        return (words << (4 * torch.arange(8))).sum(-1).to(torch.uint32).view(torch.int32)

    state = {"qweight": pack(codes.T), "qzeros": pack(zero.T), "scales": scale.T.contiguous()}
    dense = packing_utils.dequantize_gemm(state["qweight"], state["qzeros"], state["scales"].float(), 4, group)
    return state, dense.T.contiguous().float()


def gptq(bits, version, act_order=False):
    """Dequantised by GPTQModel's own layer."""

    def quantise(name, weight, rng):
        layer_class = gptqmodel_layer()
        rows, cols = weight.shape
        group, top = 32, 2**bits - 1
        order = torch.from_numpy(rng.permutation(cols)) if act_order else torch.arange(cols)
        group_of = torch.empty(cols, dtype=torch.int32)
        group_of[order] = (torch.arange(cols) // group).to(torch.int32)
        cells = weight[:, order].unflatten(1, (-1, group))
        low, high = cells.amin(-1).clamp(max=0), cells.amax(-1).clamp(min=0)
        scale = ((high - low) / top).half()
        zero = (-low / scale.float()).round().clamp(0, top)
        codes = (weight / scale.float()[:, group_of.long()] + zero[:, group_of.long()]).round().clamp(0, top)
        layer = layer_class(bits=bits, group_size=group, sym=False, desc_act=act_order, in_features=cols, out_features=rows, bias=False)

        def pack(values):  # along the first axis, as one row of bits: numbers of 3 bits cross words
            singles = (values.to(torch.int64)[:, None] >> torch.arange(bits)[:, None] & 1).flatten(0, 1).unflatten(0, (-1, 32))
            return (singles << torch.arange(32)[:, None]).sum(1).to(torch.uint32).view(torch.int32)

        layer.qweight, layer.qzeros = pack(codes.T), pack(zero).T.contiguous()
        layer.scales, layer.g_idx = scale.T.contiguous(), group_of
        layer.optimize = lambda *arguments, **options: None  # compiling it takes a minute
        layer.post_init()
        layer.scales = layer.scales.float()  # it computes in their type
        dense = layer.dequantize_weight().T.contiguous()
        assert dense.dtype == torch.float32, dense.dtype
        stored = (zero - 1) % (top + 1) if version == 1 else zero
        state = {"qweight": layer.qweight, "qzeros": pack(stored).T.contiguous(), "scales": layer.scales.half(), "g_idx": layer.g_idx.to(torch.int32)}
        return state, dense

    return quantise


def gptqmodel_layer():
    """GPTQModel imports much that its plain torch layer does not need: what is not installed is replaced by nothing."""
    for _ in range(40):
        try:
            from gptqmodel.nn_modules.qlinear.torch import TorchLinear

            return TorchLinear
        except ModuleNotFoundError as missing:
            for name in [m for m in sys.modules if m.startswith("gptqmodel")]:
                del sys.modules[name]
            sys.modules[missing.name] = mock.MagicMock(__name__=missing.name)
    raise SystemExit("gptqmodel cannot be imported")


def compressed_config(**weights):
    kept = {k: v for k, v in weights.items() if k != "packed"}
    return dict(quant_method="compressed-tensors", config_groups={"group_0": dict(targets=["Linear"], weights=kept)}, ignore=["lm_head"])


INT4_GROUP = dict(num_bits=4, type="int", symmetric=False, strategy="group", group_size=32, packed=True)
INT4_CHANNEL = dict(num_bits=4, type="int", symmetric=True, strategy="channel", packed=True)
INT8_CHANNEL = dict(num_bits=8, type="int", symmetric=True, strategy="channel")
FP8_CHANNEL = dict(num_bits=8, type="float", symmetric=True, strategy="channel")
FP8_TENSOR = dict(num_bits=8, type="float", symmetric=True, strategy="tensor")
FOLDERS = {
    "quant-fp8-block": ("Llama", BLOCKS, fp8_block, dict(quant_method="fp8", weight_block_size=[128, 128], activation_scheme="dynamic", fmt="e4m3")),
    "quant-ct-fp8-channel": ("Llama", SMALL, compressed(**FP8_CHANNEL), compressed_config(**FP8_CHANNEL)),
    "quant-ct-fp8-tensor": ("Llama", ODD, compressed(**FP8_TENSOR), compressed_config(**FP8_TENSOR)),
    "quant-ct-int4-group": ("Llama", SMALL, compressed(**INT4_GROUP), compressed_config(**INT4_GROUP)),
    "quant-ct-int4-channel": ("Llama", ODD, compressed(**INT4_CHANNEL), compressed_config(**INT4_CHANNEL)),
    "quant-ct-int8-channel": ("Llama", SMALL, compressed(**INT8_CHANNEL), compressed_config(**INT8_CHANNEL)),
    "quant-awq": ("Llama", SMALL, awq, dict(quant_method="awq", bits=4, group_size=32, zero_point=True, version="gemm")),
    "quant-gptq": ("Llama", SMALL, gptq(4, 1), dict(quant_method="gptq", bits=4, group_size=32, desc_act=False, sym=False)),
    "quant-gptq-v2-int8": (
        "Llama",
        SMALL,
        gptq(8, 2),
        dict(quant_method="gptq", bits=8, group_size=32, desc_act=False, sym=False, checkpoint_format="gptq_v2"),
    ),
    "quant-gptq-act-order": ("Llama", SMALL, gptq(4, 1, act_order=True), dict(quant_method="gptq", bits=4, group_size=32, desc_act=True, sym=False)),
    "quant-gptq-3bit": ("Llama", SMALL, gptq(3, 1), dict(quant_method="gptq", bits=3, group_size=32, desc_act=False, sym=False)),
    "quant-auto-round-2bit": (
        "Llama",
        SMALL,
        gptq(2, 1),
        dict(quant_method="auto-round", bits=2, group_size=32, sym=False, data_type="int", packing_format="auto_round:auto_gptq"),
    ),
    "quant-fp8-deepseek-v3": (
        "DeepseekV3",
        tiny.MODELS["deepseek-v3"][1],
        fp8_block,
        dict(quant_method="fp8", weight_block_size=[128, 128], activation_scheme="dynamic", fmt="e4m3"),
    ),
    "quant-mxfp4-gpt-oss": (
        "GptOss",
        tiny.MODELS["gpt-oss"][1] | dict(hidden_size=64, intermediate_size=96),
        mxfp4,
        dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"]),
    ),
}


def save_folder(out, name):
    kind, settings, quantise, quantization_config = FOLDERS[name]
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    seed = sum(name.encode())
    model = tiny.make_model(kind, settings, seed).to(torch.bfloat16).float()
    rng = np.random.default_rng(seed)
    stored = {}
    config = json.loads(model.config.to_json_string(use_diff=False))
    config = {k: v for k, v in config.items() if k in tiny.KEPT_KEYS and v is not None or k in ("q_lora_rank", "sliding_window")}
    config.update(architectures=[type(model).__name__], dtype="bfloat16", quantization_config=quantization_config)
    with tempfile.TemporaryDirectory() as dense:
        model.save_pretrained(dense)  # with the names that published folders have
        path = os.path.join(dense, "model.safetensors")
        state = load_file(path)
        for key in sorted(state):
            wanted = "_proj" in key and not key.endswith("bias") and (kind != "GptOss" or state[key].ndim == 3)
            if not wanted:
                stored[key] = state[key].to(torch.bfloat16)
                continue
            parts, state[key] = quantise(key, state[key], rng)
            for part, tensor in parts.items():
                stored[key.removesuffix("weight") + part] = tensor.contiguous()
        save_file({k: v.contiguous() for k, v in state.items()}, path, metadata={"format": "pt"})
        model = transformers.AutoModelForCausalLM.from_pretrained(dense, dtype=torch.float32, attn_implementation="eager").eval()
    tiny.write_json(os.path.join(folder, "config.json"), config, indent=1, sort_keys=True)
    save_file(stored, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    tiny.save_text_files(folder, tiny.make_tokenizer(), list_of_templates=False)
    tiny.write_json(os.path.join(folder, "cases.json"), tiny.compute_cases(model, seed))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(here, "../tests/golden/models"))
    parser.add_argument("--only", nargs="*", help="names of models")
    args = parser.parse_args()
    torch.set_num_threads(1)
    makers = {"MIXED": save_mixed} | {name: lambda out, n=name: save_folder(out, n) for name in FOLDERS}
    for name, save in makers.items():
        if not args.only or name in args.only:
            save(args.out)
            print(name, flush=True)


if __name__ == "__main__":
    sys.exit(main())
