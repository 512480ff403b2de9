#!/usr/bin/env python3
"""Writes GGUF twins of tiny models under tests/golden/models, as llama.cpp's converter lays such files out.

    python tools/gen_tiny_gguf.py [--out tests/golden/models] [--only NAME ...]

Needs what gen_tiny_models.py needs, and the folders it makes. Names of tensors are gguf-py's own; what the converter changes beside names
(rows of q and k paired, experts stacked, norms with their offset, projections taken apart) is done here after its published behaviour. The
committed files were made with gguf 0.19.0. gen_tiny_models.py itself writes those of the dense Llama-like models; qwen2-moe has a dense layer, which GGUF has no names for.
"""
import argparse
import json
import os
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file

import gen_tiny_models as tiny

ARCHITECTURES = {
    "gemma2": "gemma2", "phi3": "phi3", "phi3-longrope": "phi3", "olmo2": "olmo2", "granite": "granite", "glm4": "glm4", "ernie4.5": "ernie4_5",
    "smollm3": "smollm3", "exaone4": "exaone4", "cohere2": "cohere2", "mixtral": "llama", "qwen3-moe": "qwen3moe",
    "olmoe": "olmoe", "glm4-moe": "glm4moe", "minimax-m2": "minimax-m2", "gpt-oss": "gpt-oss", "deepseek-v2": "deepseek2",
    "deepseek-v3": "deepseek2", "qwen3-next": "qwen3next", "qwen3.5": "qwen35", "qwen3.5-moe": "qwen35moe", "gemma": "gemma", "olmo3": "olmo2",
    "seed-oss": "seed_oss", "granite-moe": "granitemoe", "granite4-dense": "granite", "glm4-moe-lite": "deepseek2", "cohere": "command-r",
    "dots1": "dots1", "ernie4.5-moe": "ernie4_5-moe", "exaone-moe": "exaone-moe",
    "ministral3": "mistral3", "hunyuan": "hunyuan-dense", "hunyuan-moe": "hunyuan-moe", "solar-open": "glm4moe",
}  # fmt: skip
PAIRED = {"llama", "granite", "granitemoe", "smollm3", "mistral3"}  # q and k with the two elements that turn together side by side
DELTA = {"qwen3next", "qwen35", "qwen35moe"}
GRANITE = {"granite", "granitemoe"}
OFFSET = {"gemma", "gemma2"} | DELTA  # norms, whose weights are stored less 1
EXPERTS = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}


def delta_parts(config, stem, name, value):
    """A delta net's fused projections and decays, as the converter writes them."""
    heads, groups = config["linear_num_value_heads"], config["linear_num_key_heads"]
    if name.endswith("in_proj_qkvz.weight"):
        dk, dv = config["linear_key_head_dim"], config["linear_value_head_dim"] * heads // groups
        q, k, v, z = np.split(value.reshape(groups, -1, value.shape[1]), [dk, 2 * dk, 2 * dk + dv], axis=1)
        yield stem + "attn_qkv.weight", np.concatenate([part.reshape(-1, value.shape[1]) for part in (q, k, v)])
        yield stem + "attn_gate.weight", z.reshape(-1, value.shape[1])
    elif name.endswith("A_log"):
        yield stem + "ssm_a", -np.exp(value)
    elif name.endswith("dt_bias"):
        yield stem + "ssm_dt.bias", value
    elif name.endswith("conv1d.weight"):
        yield stem + "ssm_conv1d.weight", value[:, 0]


def tiled(config, value, axis, size):
    """Value heads of `size` elements along an axis from `axis` on: those of one key head side by side become those of one turn."""
    groups = config["linear_num_key_heads"]
    shape = value.shape
    split = value.reshape(*shape[:axis], groups, config["linear_num_value_heads"] // groups, size, *shape[axis + 1 :])
    return split.swapaxes(axis, axis + 1).reshape(shape)


def delta_matrices(config, stem, name, value):
    """Qwen 3.5: projections that are apart already, value heads in turns."""
    size = config["linear_value_head_dim"]
    keys = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
    last = name.split(".linear_attn.")[1]
    if last in ("in_proj_qkv.weight", "conv1d.weight"):
        value = value[:, 0] if last == "conv1d.weight" else value
        value = np.concatenate([value[:keys], tiled(config, value[keys:], 0, size)])
        yield stem + {"in_proj_qkv.weight": "attn_qkv.weight", "conv1d.weight": "ssm_conv1d.weight"}[last], value
    elif last == "in_proj_z.weight":
        yield stem + "attn_gate.weight", tiled(config, value, 0, size)
    elif last in ("in_proj_a.weight", "in_proj_b.weight"):
        yield stem + {"a": "ssm_alpha", "b": "ssm_beta"}[last[8]] + ".weight", tiled(config, value, 0, 1)
    elif last == "A_log":
        yield stem + "ssm_a", tiled(config, -np.exp(value), 0, 1)
    elif last == "dt_bias":
        yield stem + "ssm_dt.bias", tiled(config, value, 0, 1)
    elif last == "out_proj.weight":
        yield stem + "ssm_out.weight", tiled(config, value, 1, size)


def halves(stem, names, value):
    """gate above up"""
    half = value.shape[-2] // 2
    for name, part in zip(names, (value[..., :half, :], value[..., half:, :])):
        yield f"{stem}{name}.weight", part


def gpt_oss_parts(stem, name, value):
    if name.endswith("gate_up_proj_bias"):
        yield stem + "ffn_gate_exps.bias", value[:, 0::2]
        yield stem + "ffn_up_exps.bias", value[:, 1::2]
    elif name.endswith("gate_up_proj"):
        yield stem + "ffn_gate_exps.weight", value.swapaxes(1, 2)[:, 0::2]
        yield stem + "ffn_up_exps.weight", value.swapaxes(1, 2)[:, 1::2]
    elif name.endswith("down_proj_bias"):
        yield stem + "ffn_down_exps.bias", value
    elif name.endswith("down_proj"):
        yield stem + "ffn_down_exps.weight", value.swapaxes(1, 2)
    elif name.endswith("sinks"):
        yield stem + "attn_sinks.weight", value
    elif ".router." in name:
        yield stem + "ffn_gate_inp." + name.rsplit(".", 1)[1], value


def special_parts(arch, config, stem, name, value):
    """What is not a matter of names, or nothing."""
    if arch == "qwen3next" and ".linear_attn." in name:
        yield from delta_parts(config, stem, name, value)
    if arch in ("qwen35", "qwen35moe") and ".linear_attn." in name:
        yield from delta_matrices(config, stem, name, value)
    if arch in GRANITE and name.endswith("shared_mlp.input_linear.weight"):
        dense = arch == "granite"
        yield from halves(stem, ("ffn_gate", "ffn_up") if dense else ("ffn_gate_shexp", "ffn_up_shexp"), value)
    if arch in GRANITE and name.endswith("shared_mlp.output_linear.weight"):
        yield stem + ("ffn_down.weight" if arch == "granite" else "ffn_down_shexp.weight"), value
    if name.endswith(("block_sparse_moe.input_linear.weight", "mlp.experts.gate_up_proj")) and arch != "gpt-oss":
        yield from halves(stem, ("ffn_gate_exps", "ffn_up_exps"), value)
    if name.endswith(("block_sparse_moe.output_linear.weight", "mlp.experts.down_proj")) and arch != "gpt-oss":
        yield stem + "ffn_down_exps.weight", value
    if arch == "gpt-oss" and (".mlp." in name or name.endswith("sinks")):
        yield from gpt_oss_parts(stem, name, value)
    if name.endswith("kv_b_proj.weight"):
        plain, heads = config["qk_nope_head_dim"], config["num_attention_heads"]
        value = value.reshape(heads, -1, value.shape[1])
        yield stem + "attn_k_b.weight", value[:, :plain].swapaxes(1, 2)
        yield stem + "attn_v_b.weight", value[:, plain:]
    if name.endswith("e_score_correction_bias"):
        yield stem + "exp_probs_b.bias", value.reshape(-1)


def tensors(arch, config, state):
    kind = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    names = gguf.get_tensor_name_map(kind, config["num_hidden_layers"])
    stacks = {}
    for name, value in sorted(state.items()):
        value = value.astype(np.float32)
        layer = name.split(".")[2] if ".layers." in name else ""
        stem = f"blk.{layer}."
        parts = list(special_parts(arch, config, stem, name, value))
        if parts:
            yield from parts
            continue
        if ".experts." in name:
            expert, projection = int(name.split(".experts.")[1].split(".")[0]), name.split(".")[-2]
            stacks.setdefault(f"{stem}ffn_{EXPERTS[projection]}_exps.weight", {})[expert] = value
            continue
        if arch in PAIRED and (".q_proj." in name or ".k_proj." in name):
            value = tiny.pair_up(value, config["num_attention_heads" if ".q_proj." in name else "num_key_value_heads"])
        if arch in OFFSET and "norm" in name and "linear_attn" not in name:
            value = value + 1
        base, ending = name.rsplit(".", 1)
        found = names.get_name(base)
        assert found, f"{arch}: no name for {name}"
        yield f"{found}.{ending}", value
    for name, experts in stacks.items():
        yield name, np.stack([experts[i] for i in range(len(experts))])


def add_rope(writer, arch, config, head_dim):
    rope = config.get("rope_parameters") or dict(config["rope_scaling"], rope_theta=config["rope_theta"])
    rope = rope.get("full_attention", rope)
    stretch = rope.get("alpha", 1.0) ** (head_dim / (head_dim - 2))  # Hunyuan's
    writer.add_rope_freq_base(rope["rope_theta"] * stretch)
    turned = config.get("qk_rope_head_dim") or int(head_dim * rope.get("partial_rotary_factor", {"glm4": 0.5, "glm4_moe": 0.5}.get(config["model_type"], 1.0)))
    writer.add_rope_dimension_count(turned)
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "mscale_all_dim" in rope:
            writer.add_rope_scaling_yarn_log_mul((1.0 if arch == "mistral3" else 0.1) * rope["mscale_all_dim"])
        if "llama_4_scaling_beta" in rope:
            writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    if rope["rope_type"] == "longrope":
        original = rope["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(config["max_position_embeddings"] / original) / np.log(original))))
        writer.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], dtype=np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], dtype=np.float32))


def add_attention(writer, arch, config, head_dim):
    writer.add_head_count(config["num_attention_heads"])
    if arch == "deepseek2":
        writer.add_head_count_kv(1)
        writer.add_key_length(config["kv_lora_rank"] + config["qk_rope_head_dim"])
        writer.add_value_length(config["kv_lora_rank"])
        writer.add_key_length_mla(config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
        writer.add_value_length_mla(config["v_head_dim"])
        writer.add_kv_lora_rank(config["kv_lora_rank"])
        if config.get("q_lora_rank"):
            writer.add_q_lora_rank(config["q_lora_rank"])
    else:
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if config.get("sliding_window") and arch not in ("smollm3", "llama", "qwen2moe"):
        writer.add_sliding_window(config["sliding_window"])
    if config.get("attn_logit_softcapping"):
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if config["model_type"] == "olmo3":
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
    if arch in DELTA:
        values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
        writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
        writer.add_ssm_state_size(config["linear_key_head_dim"])
        writer.add_ssm_group_count(config["linear_num_key_heads"])
        writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
        writer.add_ssm_inner_size(values)
        writer.add_uint32(f"{arch}.full_attention_interval", 2)


def add_experts(writer, arch, config):
    count = next((config[k] for k in ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts") if config.get(k)), 0)
    if not count:
        return
    writer.add_expert_count(count)
    writer.add_expert_used_count(config.get("num_experts_per_tok") or config.get("moe_k") or config["moe_topk"][0])
    writer.add_expert_feed_forward_length(config.get("moe_intermediate_size") or config["intermediate_size"])
    if config.get("shared_expert_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if config.get("shared_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    if arch == "ernie4_5-moe":
        writer.add_leading_dense_block_count(config["moe_layer_start_index"])
        writer.add_interleave_moe_layer_step(1)
        writer.add_expert_shared_count(config["moe_num_shared_experts"])
    if arch in ("deepseek2", "glm4moe", "dots1", "exaone-moe"):
        writer.add_leading_dense_block_count(0 if config["model_type"] == "solar_open" else config.get("first_k_dense_replace", 1))
        writer.add_expert_shared_count(config.get("n_shared_experts") or config.get("num_shared_experts", 1))
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
        sigmoid = config["model_type"] != "deepseek_v2"
        writer.add_expert_weights_norm(sigmoid and config["norm_topk_prob"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if sigmoid else gguf.ExpertGatingFuncType.SOFTMAX)
    if arch == "hunyuan-moe":
        writer.add_expert_shared_feed_forward_length(config["intermediate_size"])
        writer.add_expert_shared_count(1)
    if arch == "minimax-m2":
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def write(folder, path, arch, tokenizer):
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    writer = gguf.GGUFWriter(path, arch)
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    if "intermediate_size" in config:
        writer.add_feed_forward_length(config["shared_intermediate_size"] if config["model_type"] == "granitemoehybrid" else config["intermediate_size"])
    if arch in ("cohere2", "command-r"):
        writer.add_layer_norm_eps(config["layer_norm_eps"])
        writer.add_logit_scale(config["logit_scale"])
    else:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if arch in GRANITE:
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if arch == "gemma2":
        writer.add_attention_scale(config["query_pre_attn_scalar"] ** -0.5)
    add_attention(writer, arch, config, head_dim)
    add_experts(writer, arch, config)
    add_rope(writer, arch, config, head_dim)
    tiny.add_tokenizer(writer, tokenizer)
    for name, value in tensors(arch, config, load_file(os.path.join(folder, "model.safetensors"))):
        writer.add_tensor(name, np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(here, "../tests/golden/models"))
    parser.add_argument("--only", nargs="*", help="names of models")
    args = parser.parse_args()
    tokenizer = tiny.make_tokenizer()
    for name, arch in ARCHITECTURES.items():
        if not args.only or name in args.only:
            write(os.path.join(args.out, name), os.path.join(args.out, "gguf", name + ".gguf"), arch, tokenizer)
            print(name, flush=True)


if __name__ == "__main__":
    sys.exit(main())
