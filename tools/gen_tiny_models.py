#!/usr/bin/env python3
"""Makes the tiny random models under tests/golden/models and what the reference computes with them.

    python tools/gen_tiny_models.py [--out tests/golden/models] [--llama-quantize PROGRAM] [--only NAME ...]

Needs torch, transformers, safetensors, tokenizers and gguf. The committed files were made with torch 2.15.0 (later additions: 2.13.0),
transformers 5.24.0, tokenizers 0.23.3 and gguf 0.19.0; the K-quantised GGUF files with the llama-quantize of llama.cpp as shipped in llama-cpp-python 0.3.36
(--pure, so that every matrix has the named type). Everything is seeded: the same versions make the same files.

    NAME/            a Hugging Face folder and cases.json
    gguf/NAME.gguf   the same model as an F32 GGUF file; its cases are NAME's. llama-split-*.gguf: one model in two parts
    quant/TYPE.gguf  a model with every matrix in TYPE, and TYPE.cases.json, computed with the dequantised weights

cases.json: for each case prompt_ids, greedy_ids (that must follow), top (the 20 largest [id, logprob] of each step) and prompt_logprobs (of
every prompt token after the first). Computed in 32 bits, BF16 weights widened exactly. Seeds are chosen so that the best two tokens of a step
are never closer than MIN_GAP.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB = 288
PROMPT_LENGTHS = (4, 47, 200)
STEPS = 16
TOP = 20
MIN_GAP = 0.02
MIN_CHOICE_GAP = 2e-5  # of router scores: well above what the order of F32 sums changes
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT = "the quick brown fox jumps over the lazy dog and then the other dog jumps over the fox in the end " * 4


def make_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=SPECIAL, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    assert tokenizer.get_vocab_size() == VOCAB, tokenizer.get_vocab_size()
    return tokenizer


BASE = dict(
    vocab_size=VOCAB,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=512,
    rms_norm_eps=1e-6,
    bos_token_id=0,
    eos_token_id=2,
    pad_token_id=0,
    tie_word_embeddings=False,
)


def old_rope(config, **scaling):
    """Rewrites a config.json dict to the spelling of transformers 4."""
    theta = config.pop("rope_parameters")["rope_theta"]
    config.update(rope_theta=theta, rope_scaling=scaling)


def old_gemma(config):
    parameters = config.pop("rope_parameters")
    config.pop("layer_types")
    config.update(
        rope_theta=parameters["full_attention"]["rope_theta"],
        rope_local_base_freq=parameters["sliding_attention"]["rope_theta"],
        rope_scaling={"rope_type": "linear", "factor": 8.0},
        sliding_window_pattern=2,
    )
    config.pop("_sliding_window_pattern", None)


def old_olmo(config):
    """As published: the scaling is that of the layers that see everything."""
    scaling = config.pop("rope_parameters")["full_attention"]
    config.update(rope_theta=scaling.pop("rope_theta"), rope_scaling=scaling)


LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
NTK = dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=8.0)
YARN = dict(factor=4.0, original_max_position_embeddings=64, beta_fast=16.0, beta_slow=2.0, mscale=1.0, mscale_all_dim=0.5, truncate=False)

DEEPSEEK = dict(
    num_key_value_heads=4,
    kv_lora_rank=16,
    qk_nope_head_dim=16,
    qk_rope_head_dim=8,
    v_head_dim=8,
    first_k_dense_replace=1,
    n_routed_experts=8,
    n_shared_experts=1,
    num_experts_per_tok=3,
    moe_intermediate_size=16,
    routed_scaling_factor=2.5,
    norm_topk_prob=True,
)

DELTA = dict(
    head_dim=16,
    layer_types=["linear_attention", "full_attention"],
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=8,
    linear_value_head_dim=8,
    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25),
)
GRANITE = dict(embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=0.5)
ROUTED = dict(
    first_k_dense_replace=1,
    n_routed_experts=8,
    n_shared_experts=1,
    num_experts_per_tok=3,
    n_group=4,
    topk_group=2,
    moe_intermediate_size=16,
    routed_scaling_factor=1.5,
    norm_topk_prob=True,
)

# name -> (configuration class, settings, how the saved config.json is edited, dtype, options)
MODELS = {
    "llama": ("Llama", dict(head_dim=16), None, "f32", {"gguf"}),
    # OpenLLaMA 3B's heads have 100 elements: no whole number of eights.
    "llama-odd-heads": ("Llama", dict(hidden_size=40, intermediate_size=48), None, "f32", {"gguf"}),
    "llama-bias-linear": (
        "Llama",
        dict(
            head_dim=16,
            num_key_value_heads=1,
            attention_bias=True,
            mlp_bias=True,
            tie_word_embeddings=True,
            rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=10000.0),
        ),
        None,
        "f32",
        {"gguf"},
    ),
    "llama3-rope": (
        "Llama",
        dict(head_dim=16, rope_parameters=dict(rope_theta=500000.0, **LLAMA3)),
        lambda c: old_rope(c, **LLAMA3),
        "f32",
        {"gguf"},
    ),
    "llama-yarn": (
        "Llama",
        dict(head_dim=16, rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, **YARN)),
        lambda c: old_rope(c, type="yarn", **YARN),
        "f32",
        set(),
    ),
    "llama-bf16": ("Llama", dict(), None, "bf16", set()),
    "llama-sharded": ("Llama", dict(num_attention_heads=2, num_key_value_heads=2), None, "f32", {"sharded"}),
    "mistral-swa": ("Mistral", dict(head_dim=24, sliding_window=24), None, "f32", set()),
    "ministral3": (
        "Ministral3",
        dict(
            head_dim=16,
            rope_parameters=dict(
                rope_type="yarn",
                rope_theta=10000.0,
                factor=16.0,
                original_max_position_embeddings=32,
                beta_fast=32.0,
                beta_slow=1.0,
                mscale=1.0,
                mscale_all_dim=1.0,
                llama_4_scaling_beta=0.4,
            ),
        ),
        None,
        "f32",
        set(),
    ),
    "hunyuan": ("HunYuanDenseV1", dict(head_dim=16, attention_bias=True, rope_parameters=NTK), None, "f32", set()),
    "hunyuan-moe": (
        "HunYuanMoEV1",
        dict(head_dim=16, num_experts=4, moe_topk=2, rope_parameters=NTK),
        lambda c: c.update(moe_topk=[2, 2]),
        "f32",
        {"experts"},
    ),
    "qwen2": ("Qwen2", dict(use_sliding_window=True, sliding_window=24, max_window_layers=1), None, "f32", set()),
    "qwen2-yarn": (
        "Qwen2",
        dict(
            num_attention_heads=2,
            num_key_value_heads=1,
            rope_parameters=dict(rope_type="yarn", factor=4.0, rope_theta=1000000.0, original_max_position_embeddings=64),
        ),
        None,
        "f32",
        {"gguf"},
    ),
    "qwen3": ("Qwen3", dict(head_dim=16, tie_word_embeddings=True), None, "f32", {"gguf"}),
    "gemma3": (
        "Gemma3Text",
        dict(
            head_dim=16,
            num_hidden_layers=6,
            num_attention_heads=2,
            num_key_value_heads=1,
            sliding_window=24,
            query_pre_attn_scalar=16,
            final_logit_softcapping=20.0,
            tie_word_embeddings=True,
        ),
        None,
        "f32",
        {"gguf"},
    ),
    "gemma3-old-keys": (
        "Gemma3Text",
        dict(
            head_dim=16,
            num_hidden_layers=2,
            sliding_window=24,
            query_pre_attn_scalar=24,
            tie_word_embeddings=True,
            layer_types=["sliding_attention", "full_attention"],
            rope_parameters={
                "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1000000.0),
                "sliding_attention": dict(rope_type="default", rope_theta=10000.0),
            },
        ),
        old_gemma,
        "f32",
        set(),
    ),
    "gemma2": (
        "Gemma2",
        dict(head_dim=16, sliding_window=24, query_pre_attn_scalar=12, attn_logit_softcapping=8.0, final_logit_softcapping=20.0, tie_word_embeddings=True),
        None,
        "f32",
        set(),
    ),
    "phi3": ("Phi3", dict(sliding_window=30), None, "f32", set()),
    # The second case becomes long while it is continued.
    "phi3-longrope": (
        "Phi3",
        dict(
            original_max_position_embeddings=56,
            rope_parameters=dict(
                rope_type="longrope",
                rope_theta=10000.0,
                original_max_position_embeddings=56,
                short_factor=[1.0, 1.1, 1.2, 1.3],
                long_factor=[1.5, 2.5, 3.5, 4.5],
            ),
        ),
        None,
        "f32",
        set(),
    ),
    "olmo2": ("Olmo2", dict(), None, "f32", set()),
    "granite": (
        "Granite",
        dict(embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=0.5),
        None,
        "f32",
        set(),
    ),
    "glm4": ("Glm4", dict(head_dim=16), None, "f32", set()),
    "ernie4.5": ("Ernie4_5", dict(head_dim=16, use_bias=True, tie_word_embeddings=False), None, "f32", set()),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=4), None, "f32", set()),
    "exaone4": ("Exaone4", dict(num_hidden_layers=4, sliding_window=24), None, "f32", set()),
    "mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=None), None, "f32", {"experts"}),
    "qwen2-moe": (
        "Qwen2Moe",
        dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24, mlp_only_layers=[0]),
        None,
        "f32",
        {"experts"},
    ),
    "qwen3-moe": (
        "Qwen3Moe",
        dict(head_dim=16, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=16, norm_topk_prob=True),
        None,
        "f32",
        {"experts"},
    ),
    "olmoe": ("Olmoe", dict(num_experts=4, num_experts_per_tok=2), None, "f32", {"experts"}),
    "olmoe-clip": ("Olmoe", dict(num_experts=4, num_experts_per_tok=2, clip_qkv=0.6), None, "f32", {"experts"}),
    "glm4-moe": (
        "Glm4Moe",
        dict(
            head_dim=16,
            use_qk_norm=True,
            attention_bias=True,
            first_k_dense_replace=1,
            n_routed_experts=8,
            num_experts_per_tok=3,
            n_group=4,
            topk_group=2,
            moe_intermediate_size=16,
            routed_scaling_factor=1.5,
            num_nextn_predict_layers=1,
        ),
        None,
        "f32",
        {"experts"},
    ),
    "minimax-m2": (
        "MiniMaxM2",
        dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2, rope_parameters=dict(rope_type="default", rope_theta=5e6, partial_rotary_factor=0.5)),
        None,
        "f32",
        {"experts"},
    ),
    "gpt-oss": (
        "GptOss",
        dict(
            head_dim=16,
            sliding_window=24,
            num_local_experts=4,
            num_experts_per_tok=2,
            rope_parameters=dict(
                rope_type="yarn",
                rope_theta=150000.0,
                factor=32.0,
                original_max_position_embeddings=64,
                beta_fast=32.0,
                beta_slow=1.0,
                truncate=False,
            ),
        ),
        None,
        "f32",
        {"experts"},
    ),
    "gpt-oss-limits": (
        "GptOss",
        dict(head_dim=16, sliding_window=24, num_local_experts=4, num_experts_per_tok=2, swiglu_alpha=1.1, swiglu_limit=0.5),
        None,
        "f32",
        {"experts"},
    ),
    "deepseek-v2": (
        "DeepseekV2",
        dict(
            DEEPSEEK,
            q_lora_rank=None,
            n_group=4,
            topk_group=2,
            topk_method="group_limited_greedy",
            rope_parameters=dict(
                rope_type="yarn",
                rope_theta=10000.0,
                factor=4.0,
                original_max_position_embeddings=128,
                mscale=0.7,
                mscale_all_dim=0.7,
                beta_fast=32,
                beta_slow=1,
            ),
        ),
        None,
        "f32",
        {"experts"},
    ),
    "deepseek-v3": ("DeepseekV3", dict(DEEPSEEK, q_lora_rank=24, n_group=4, topk_group=2), None, "f32", {"experts"}),
    # The last case has more positions than may be chosen. Many heads, or several positions would score exactly 0.
    "deepseek-v32": (
        "DeepseekV32",
        dict(DEEPSEEK, q_lora_rank=24, n_group=4, topk_group=2, index_n_heads=16, index_head_dim=16, index_topk=60),
        None,
        "f32",
        {"experts"},
    ),
    "qwen3-next": (
        "Qwen3Next",
        dict(DELTA, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=16),
        None,
        "f32",
        {"experts"},
    ),
    "cohere2": ("Cohere2", dict(num_hidden_layers=4, sliding_window=24, logit_scale=0.5, tie_word_embeddings=True), None, "f32", set()),
    "qwen3.5": ("Qwen3_5Text", DELTA, None, "f32", set()),
    "qwen3.5-moe": (
        "Qwen3_5MoeText",
        dict(DELTA, intermediate_size=None, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=16),
        None,
        "f32",
        set(),  # experts stay stacked, as published
    ),
    "gemma": ("Gemma", dict(head_dim=16, num_key_value_heads=1, tie_word_embeddings=True), lambda c: c.update(hidden_act="gelu"), "f32", set()),
    "olmo3": (
        "Olmo3",
        dict(
            num_hidden_layers=4,
            sliding_window=24,
            rope_parameters=dict(
                sliding_attention=dict(rope_type="default", rope_theta=500000.0),
                full_attention=dict(rope_type="yarn", rope_theta=500000.0, factor=8.0, original_max_position_embeddings=64),
            ),
        ),
        old_olmo,
        "f32",
        set(),
    ),
    "seed-oss": ("SeedOss", dict(head_dim=16, attention_bias=True), None, "f32", set()),
    "granite-moe": ("GraniteMoeShared", dict(GRANITE, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=24), None, "f32", {"experts"}),
    "granite4-dense": (
        "GraniteMoeHybrid",
        dict(
            GRANITE,
            num_local_experts=0,
            num_experts_per_tok=0,
            shared_intermediate_size=48,
            layer_types=["full_attention"] * 2,
            position_embedding_type="rope",
            mamba_n_heads=8,
        ),
        lambda c: c.update(layer_types=["attention"] * 2),  # as published
        "f32",
        set(),
    ),
    "glm4-moe-lite": ("Glm4MoeLite", dict(DEEPSEEK, q_lora_rank=24, n_group=1, topk_group=1), None, "f32", {"experts"}),
    "glm-moe-dsa": (
        "GlmMoeDsa",
        dict(DEEPSEEK, q_lora_rank=24, n_group=1, topk_group=1, index_n_heads=16, index_head_dim=16, index_topk=60),
        None,
        "f32",
        {"experts"},
    ),
    "cohere": ("Cohere", dict(logit_scale=0.5, tie_word_embeddings=True), None, "f32", set()),
    "dots1": ("Dots1", dict(ROUTED, head_dim=16, max_window_layers=2), None, "f32", {"experts"}),
    "ernie4.5-moe": (
        "Ernie4_5_Moe",
        dict(head_dim=16, moe_num_experts=5, moe_k=2, moe_intermediate_size=16, moe_num_shared_experts=1, moe_layer_start_index=1),
        None,
        "f32",
        {"experts"},
    ),
    "exaone-moe": (
        "ExaoneMoe",
        dict(
            head_dim=16,
            num_hidden_layers=4,
            sliding_window=24,
            num_experts=4,
            num_experts_per_tok=2,
            num_shared_experts=1,
            moe_intermediate_size=16,
            first_k_dense_replace=1,
        ),
        None,
        "f32",
        {"experts"},
    ),
    "solar-open": ("SolarOpen", dict({k: v for k, v in ROUTED.items() if k != "first_k_dense_replace"}, head_dim=16, intermediate_size=None), None, "f32", {"experts"}),
    "cwm": ("Cwm", dict(head_dim=16, sliding_window=24), None, "f32", set()),
}

# Language models inside of larger ones: the class, the language model in it and its settings, the "model_type" of both, how files spell its tensors
# ("model." and "lm_head." stand for what they are called alone), and keys of text_config: added, or left out where None, as they are what the class
# assumes.
WRAPPED = {
    # As transformers 4 wrote Gemma 3 from 4B on.
    "gemma3-vision": (
        "Gemma3ForConditionalGeneration",
        "Gemma3Text",
        dict(head_dim=16, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=4, sliding_window=24, query_pre_attn_scalar=16, tie_word_embeddings=True),
        ("gemma3", "gemma3_text"),
        {"model.": "language_model.model."},
        dict(num_attention_heads=None, num_key_value_heads=None, tie_word_embeddings=None, max_position_embeddings=None, layer_types=None),
    ),
    "qwen2.5-vl": (
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen2",
        dict(rms_norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=1000000.0)),
        ("qwen2_5_vl", "qwen2_5_vl_text"),
        {"model.": "model.language_model."},
        dict(rms_norm_eps=None, rope_parameters=None, rope_scaling=dict(type="mrope", mrope_section=[2, 1, 1])),
    ),
    "qwen3.5-vl": (
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5Text",
        DELTA,
        ("qwen3_5", "qwen3_5_text"),
        {"model.": "model.language_model."},
        {},
    ),
    "qwen3-vl-moe": (
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3Moe",
        dict(head_dim=16, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24, norm_topk_prob=True),
        ("qwen3_vl_moe", "qwen3_vl_moe_text"),
        {"model.": "model.language_model."},
        {},
    ),
    "llava": (
        "LlavaForConditionalGeneration",
        "Mistral",
        dict(head_dim=16, sliding_window=None),
        ("llava", "mistral"),
        {"model.": "language_model.model.", "lm_head.": "language_model.lm_head."},
        {},
    ),
}

# For the quantised files: rows of 256, the size of K-quant blocks.
QUANT = dict(head_dim=64, hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_key_value_heads=1, tie_word_embeddings=True)


def make_model(kind, settings, seed):
    config = getattr(transformers, kind + "Config")(**{k: v for k, v in (BASE | settings).items() if v is not None or k not in BASE})
    config._attn_implementation = "eager"
    # transformers 5 derives layer_types from max_window_layers only while loading
    model = getattr(transformers, kind.removesuffix("Text") + "ForCausalLM")(config).eval()
    generator = torch.Generator().manual_seed(seed)
    fan_in = 1.7 / config.hidden_size**0.5
    tied = config.tie_word_embeddings
    # Where the head is tied, embeddings are small: a token's own must not outweigh what the layers add, or it repeats for ever. Gemma
    # multiplies them by sqrt(hidden_size) first.
    embedding = (0.15 if "Gemma" in kind else 0.5) * fan_in if tied else 0.7
    # The quantised models' logits are flatter: 8-bit activations must not move them further than the tests allow.
    head_gain = 5 if "Gemma" in kind else 0.9 if config.hidden_size == 256 else 3
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name == "model.norm.weight" and tied:
                parameter.copy_(parameter + (head_gain - 1) + 0.2 * noise)
            elif "norm" in name:
                parameter.copy_(parameter + 0.2 * noise)
            elif name.endswith(("sinks", "A_log", "conv1d.weight")):
                parameter.copy_(0.5 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            elif "embed_tokens" in name:
                parameter.copy_(embedding * noise)
            else:
                parameter.copy_(fan_in * noise)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(0.1 * torch.randn(buffer.shape, generator=generator))
    return model


class Choices:
    """Watches what a model chooses by torch.topk (experts, positions): `gap` is the least by which a choice was clear."""

    def __enter__(self):
        self.gap, self.topk = float("inf"), torch.topk
        torch.topk = self.watch
        return self

    def watch(self, values, k, dim=-1, **options):
        if values.shape[dim] > k:
            best = self.topk(values, k + 1, dim=dim).values.float()
            gaps = best.select(dim, k - 1) - best.select(dim, k)
            self.gap = min([self.gap, *gaps[torch.isfinite(gaps)].flatten().tolist()])
        return self.topk(values, k, dim=dim, **options)

    def __exit__(self, *_):
        torch.topk = self.topk


def compute_case(model, prompt):
    """None where the next token, or an expert, is nearly a tie: other sums than the reference's may choose otherwise."""
    with Choices() as choices:
        case = greedy_case(model, prompt)
    return case if choices.gap > MIN_CHOICE_GAP else None


@torch.no_grad()
def greedy_case(model, prompt):
    ids, top, greedy = list(prompt), [], []
    for step in range(STEPS):
        logprobs = torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), dim=-1)
        if step == 0:
            prompt_logprobs = [round(logprobs[i, t].item(), 5) for i, t in enumerate(prompt[1:])]
        best = logprobs[-1].sort(descending=True, stable=True)
        top.append([[i, round(v, 5)] for i, v in zip(best.indices[:TOP].tolist(), best.values[:TOP].tolist())])
        if top[-1][0][1] - top[-1][1][1] < MIN_GAP:
            return None
        ids.append(top[-1][0][0])
        greedy.append(ids[-1])
    return dict(prompt_ids=prompt, greedy_ids=greedy, top=top, prompt_logprobs=prompt_logprobs)


def compute_cases(model, seed):
    cases = []
    for length in PROMPT_LENGTHS:
        for attempt in range(1000):
            generator = np.random.default_rng([seed, length, attempt])
            case = compute_case(model, generator.integers(3, VOCAB, length).tolist())
            if case:
                break
        assert case, "no prompt without near ties"
        cases.append(case)
    config = model.config
    return dict(architecture=type(model).__name__, model_type=config.model_type, cases=cases)


def write_json(path, value, **options):
    with open(path, "w") as out:
        json.dump(value, out, **options)
        out.write("\n")


def save_text_files(folder, tokenizer, list_of_templates):
    tokenizer.save(os.path.join(folder, "tokenizer.json"), pretty=False)
    config = dict(bos_token=SPECIAL[0], eos_token=SPECIAL[2], pad_token=SPECIAL[0], model_max_length=512, tokenizer_class="PreTrainedTokenizerFast")
    if list_of_templates:
        config["chat_template"] = [
            dict(name="default", template=TEMPLATE),
            dict(name="tool_use", template="{{ tools }}" + TEMPLATE),
        ]
    else:
        with open(os.path.join(folder, "chat_template.jinja"), "w") as out:
            out.write(TEMPLATE)
    write_json(os.path.join(folder, "tokenizer_config.json"), config, indent=1)
    write_json(os.path.join(folder, "generation_config.json"), dict(eos_token_id=[2, 0], do_sample=True, temperature=0.7, top_p=0.9, top_k=40), indent=1)


def save_weights(folder, model, sharded):
    state = {k: v.contiguous() for k, v in model.state_dict().items() if not (model.config.tie_word_embeddings and k == "lm_head.weight")}
    if not sharded:
        save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        return
    names, weight_map, parts = sorted(state), {}, 3
    for part in range(parts):
        shard = f"model-{part + 1:05}-of-{parts:05}.safetensors"
        mine = names[part::parts]
        save_file({n: state[n] for n in mine}, os.path.join(folder, shard), metadata={"format": "pt"})
        weight_map.update({n: shard for n in mine})
    total = sum(v.numel() * v.element_size() for v in state.values())
    write_json(os.path.join(folder, "model.safetensors.index.json"), dict(metadata=dict(total_size=total), weight_map=weight_map), indent=1)


def save_folder(out, name, tokenizer):
    kind, settings, edit, dtype, options = MODELS[name]
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    seed = sum(name.encode())
    model = make_model(kind, settings, seed)
    if dtype == "bf16":
        model.to(torch.bfloat16)
    config = json.loads(model.config.to_json_string(use_diff=False))
    config = {k: v for k, v in config.items() if k in KEPT_KEYS and v is not None or k in ("sliding_window", "q_lora_rank")}
    config["architectures"] = [type(model).__name__]
    if edit:
        edit(config)
    write_json(os.path.join(folder, "config.json"), config, indent=1, sort_keys=True)
    if "experts" in options:  # the library takes its stacked experts apart again, as published folders have them
        model.save_pretrained(folder)
        write_json(os.path.join(folder, "config.json"), config, indent=1, sort_keys=True)
    else:
        save_weights(folder, model, "sharded" in options)
    save_text_files(folder, tokenizer, list_of_templates=name == "qwen3")
    # The reference reads the folder itself, so that config.json means what transformers says it means.
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    cases = compute_cases(loaded, seed)
    write_json(os.path.join(folder, "cases.json"), cases)
    if "gguf" in options:
        os.makedirs(os.path.join(out, "gguf"), exist_ok=True)
        save_gguf(os.path.join(out, "gguf", name + ".gguf"), loaded, tokenizer)
    if name == "llama":
        save_gguf(os.path.join(out, "gguf", "llama-split.gguf"), loaded, tokenizer, split=True)


def save_wrapped(out, name, tokenizer):
    wrapper, kind, settings, (own_type, text_type), spelling, changes = WRAPPED[name]
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    seed = sum(name.encode())
    model = make_model(kind, settings, seed)
    text = json.loads(model.config.to_json_string(use_diff=False))
    text = {k: v for k, v in text.items() if k in KEPT_KEYS and v is not None or k == "sliding_window"}
    text.update(changes, model_type=text_type)
    text = {k: v for k, v in text.items() if v is not None or k == "sliding_window"}
    config = dict(architectures=[wrapper], model_type=own_type, text_config=text, vision_config=VISION[own_type], eos_token_id=2)
    write_json(os.path.join(folder, "config.json"), config, indent=1, sort_keys=True)
    tied = model.config.tie_word_embeddings
    state = {}
    for key, value in model.state_dict().items():
        if tied and key == "lm_head.weight":
            continue
        if own_type == "qwen3_vl_moe" and ".experts." in key:
            value = value.transpose(1, 2)
        first = key[: key.index(".") + 1]
        state[spelling.get(first, first) + key.removeprefix(first)] = value.contiguous()
    state["vision_tower.patches.weight"] = torch.ones(4, 3)
    save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    save_text_files(folder, tokenizer, list_of_templates=False)
    # The parts that see are made up by the library; a text does not get there.
    loaded = getattr(transformers, wrapper).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    write_json(os.path.join(folder, "cases.json"), compute_cases(loaded, seed))


VISION = {
    "gemma3": dict(model_type="siglip_vision_model", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14),
    "qwen2_5_vl": dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, fullatt_block_indexes=[0]),
    "qwen3_5": dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32),
    "qwen3_vl_moe": dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, deepstack_visual_indexes=[0]),
    "llava": dict(model_type="clip_vision_model", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14),
}  # fmt: skip


KEPT_KEYS = set(BASE) | {
    "attention_bias", "use_bias", "mlp_bias", "head_dim", "hidden_act", "hidden_activation", "layer_types", "max_window_layers", "model_type",
    "query_pre_attn_scalar", "rope_parameters", "sliding_window", "use_sliding_window", "final_logit_softcapping", "attn_logit_softcapping",
    "_sliding_window_pattern", "dtype", "initializer_range", "use_bidirectional_attention",
    # multipliers, LayerNorm, layers without RoPE, LongRoPE
    "attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling", "logit_scale", "layer_norm_eps",
    # experts, latent attention, indexers, delta nets
    "num_local_experts", "num_experts", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts",
    "shared_expert_intermediate_size", "norm_topk_prob", "first_k_dense_replace", "n_group", "topk_group", "topk_method",
    "routed_scaling_factor", "mlp_only_layers", "decoder_sparse_step", "mlp_layer_types", "use_qk_norm", "qkv_bias", "clip_qkv", "swiglu_alpha",
    "swiglu_limit", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "index_n_heads", "index_head_dim",
    "index_topk", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim",
    "num_nextn_predict_layers", "rope_interleave",
    "attention_out_bias", "shared_intermediate_size", "position_embedding_type", "mamba_n_heads", "moe_num_experts", "moe_k", "moe_num_shared_experts",
    "moe_layer_start_index", "num_shared_experts", "indexer_types", "moe_topk",
    "no_rope_layers", "no_rope_layer_interval", "sliding_window_pattern", "original_max_position_embeddings", "partial_rotary_factor",
}  # fmt: skip


GGUF_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
GEMMA_NAMES = GGUF_NAMES | {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip


def gguf_name(name, gemma):
    name = name.removeprefix("model.")
    top = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    if name in top:
        return top[name]
    _, layer, rest = name.split(".", 2)
    stem, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{(GEMMA_NAMES if gemma else GGUF_NAMES)[stem]}.{kind}"


def pair_up(rows, heads):
    """Reorders the rows of each head from halves to adjacent pairs, as GGUF's llama architecture has them."""
    shape = rows.shape
    return rows.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def gguf_tensors(model):
    config = model.config
    gemma, llama = config.model_type == "gemma3_text", config.model_type == "llama"
    for name, value in model.state_dict().items():
        if config.tie_word_embeddings and name == "lm_head.weight":
            continue
        value = value.float().numpy()
        if llama and ".q_proj." in name:
            value = pair_up(value, config.num_attention_heads)
        if llama and ".k_proj." in name:
            value = pair_up(value, config.num_key_value_heads)
        if gemma and "norm" in name:
            value = value + 1
        yield gguf_name(name, gemma), np.ascontiguousarray(value)


def llama3_divisors(config):
    p, dims = config.rope_parameters, config.head_dim
    frequencies = 1.0 / p["rope_theta"] ** (np.arange(0, dims, 2, dtype=np.float64) / dims)
    low = p["original_max_position_embeddings"] / p["low_freq_factor"]
    high = p["original_max_position_embeddings"] / p["high_freq_factor"]
    divisors = []
    for wavelength in 2 * np.pi / frequencies:
        if wavelength < high:
            divisors.append(1.0)
        elif wavelength > low:
            divisors.append(p["factor"])
        else:
            smooth = (p["original_max_position_embeddings"] / wavelength - p["low_freq_factor"]) / (p["high_freq_factor"] - p["low_freq_factor"])
            divisors.append(1.0 / ((1 - smooth) / p["factor"] + smooth))
    return np.array(divisors, dtype=np.float32)


def add_metadata(writer, config, tokenizer):
    writer.add_name("tiny random model")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if config.model_type == "gemma3_text":
        writer.add_sliding_window(config.sliding_window)
        if config.final_logit_softcapping:
            writer.add_final_logit_softcapping(config.final_logit_softcapping)
    add_tokenizer(writer, tokenizer)


def add_tokenizer(writer, tokenizer):
    state = json.loads(tokenizer.to_str())
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if t in SPECIAL else 1 for t in tokens])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in state["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def save_gguf(path, model, tokenizer, quantise=None, split=False):
    config = model.config
    arch = {"gemma3_text": "gemma3"}.get(config.model_type, config.model_type)
    writer = gguf.GGUFWriter(path, arch, split_max_tensors=len(model.state_dict()) // 2 + 1 if split else 0)
    add_metadata(writer, config, tokenizer)
    if config.model_type == "llama" and config.rope_parameters["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config))
    for name, value in gguf_tensors(model):
        if quantise is not None and value.ndim == 2:
            packed = gguf.quants.quantize(value, quantise)
            writer.add_tensor(name, packed, raw_dtype=quantise)
        else:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def load_dequantised(model, path):
    """Puts the values that a GGUF file of a llama model stands for into `model`."""
    values = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}
    config, state = model.config, model.state_dict()
    for name, old in state.items():
        if name == "lm_head.weight":
            continue
        value = values[gguf_name(name, gemma=False)].reshape(old.shape)
        heads = {"q": config.num_attention_heads, "k": config.num_key_value_heads}.get(name.split("_proj")[0][-1])
        if "_proj" in name and heads:  # back from adjacent pairs to halves
            value = value.reshape(heads, value.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(value.shape)
        old.copy_(torch.from_numpy(np.array(value, dtype=np.float32)))


def save_quantised(out, tokenizer, llama_quantize):
    folder = os.path.join(out, "quant")
    os.makedirs(folder, exist_ok=True)
    small = dict(head_dim=16, tie_word_embeddings=True)
    for type_name in ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"):
        path = os.path.join(folder, type_name + ".gguf")
        model = make_model("Llama", small if type_name.endswith("F16") else QUANT, seed=7)
        if type_name.endswith("_K"):
            if not llama_quantize:
                print(f"{type_name}: kept as it is (no --llama-quantize)")
                continue
            save_gguf(path + ".f32", model, tokenizer)
            file_type = type_name if type_name == "Q6_K" else type_name + "_S"
            subprocess.run([llama_quantize, "--pure", path + ".f32", path, file_type], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            os.remove(path + ".f32")
        else:
            save_gguf(path, model, tokenizer, quantise=gguf.GGMLQuantizationType[type_name])
        load_dequantised(model, path)
        write_json(os.path.join(folder, type_name + ".cases.json"), compute_cases(model, seed=7))
        print(type_name, os.path.getsize(path))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(here, "../tests/golden/models"))
    parser.add_argument("--llama-quantize", help="the program; without it K-quantised files are left alone")
    parser.add_argument("--only", nargs="*", help="names of models, or quant")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    for name in MODELS:
        if not args.only or name in args.only:
            save_folder(args.out, name, tokenizer)
            print(name, flush=True)
    for name in WRAPPED:
        if not args.only or name in args.only:
            save_wrapped(args.out, name, tokenizer)
            print(name, flush=True)
    if not args.only or "quant" in args.only:
        save_quantised(args.out, tokenizer, args.llama_quantize)


if __name__ == "__main__":
    sys.exit(main())
