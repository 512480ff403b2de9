"""Keeps one Hugging Face folder loaded in vLLM on the CPU, in BF16, and measures it. Arguments: folder, threads, longest sequence, most
tokens of all sequences together."""
import os
import random
import sys
import time

import worker


def load():
    model, threads, longest, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    cores = sorted(os.sched_getaffinity(0))[:threads]
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores))
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the steps are timed here
    os.environ["VLLM_NO_USAGE_STATS"] = os.environ["HF_HUB_OFFLINE"] = "1"
    import vllm

    cache_bytes = 1 << 30
    while cache_bytes < tokens * 1.25 * kv_bytes_per_token(model):
        cache_bytes *= 2
    engine = vllm.LLM(
        model=model, dtype="bfloat16", skip_tokenizer_init=True, max_model_len=longest + 8, max_num_seqs=64,
        max_num_batched_tokens=max(tokens, 2048), enable_prefix_caching=False, kv_cache_memory_bytes=cache_bytes, disable_log_stats=True,
    ).llm_engine  # fmt: skip
    vocab = engine.model_config.get_vocab_size()
    requests = iter(range(1 << 60))

    def run(prompt, output, sequences):
        sampling = vllm.SamplingParams(temperature=0, max_tokens=output + 1, ignore_eos=True, detokenize=False)
        prompts = {str(next(requests)): random.choices(range(vocab), k=prompt) for _ in range(sequences)}
        begin, have = time.perf_counter(), dict.fromkeys(prompts, 0)
        for name, ids in prompts.items():
            engine.add_request(name, {"prompt_token_ids": ids}, sampling)

        def step():
            new = {}
            for reply in engine.step():
                name, count = reply.request_id.split("-")[0], len(reply.outputs[0].token_ids)
                new[name], have[name] = count - have[name], count
            return new, engine.has_unfinished_requests()

        return worker.measure(sequences, step, begin)

    return vllm.__version__, run


def kv_bytes_per_token(folder):
    import json
    import pathlib

    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    config = config.get("text_config", config)
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    return 2 * 2 * config["num_hidden_layers"] * config.get("num_key_value_heads", heads) * head_dim


if __name__ == "__main__":
    worker.serve(load)
