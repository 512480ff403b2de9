#!/usr/bin/env python3
"""Makes tests/golden/perplexity.json: perplexities and KL divergences of the tiny models of tests/golden/models, computed by the reference
library, for tests/e2e/perplexity_test.py. Made with torch 2.13.0 and transformers 5.24.0, in 32 bits and sums in 64."""
import json
import math
import pathlib
import struct
import sys

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODELS = ROOT / "tests" / "golden" / "models"
OUT = ROOT / "tests" / "golden" / "perplexity.json"
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from perplexity_test import logits_file  # noqa: E402

TEXT = " ".join(
    f"{a} {b} jumps over the {c} dog, {i} times; and then the other {b} sleeps in the {c} end\n"
    for i, (a, b, c) in enumerate(zip(("the quick", "a slow", "one", "naïve") * 6, ("fox", "brown fox", "dog") * 8, ("lazy", "other", "quick", "last") * 6))
)
CASES = [(name, 64, stride, False) for name in ("llama", "qwen3", "gemma3", "mistral-swa") for stride in (0, 24)]
CASES += [("llama", 50, 0, True), ("llama", 64, 64, False), ("llama", 64, 1, False)]
PAIRS = [("qwen3", "llama"), ("llama-bf16", "llama"), ("llama", "llama")]
BOS = 1


def logprobs(model, ids):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), dim=-1)


def windows(tokens, context, stride):
    """(begin, end, first scored token)"""
    if not stride:
        return [(b, b + context, b + context // 2 + 1) for b in range(0, tokens - context + 1, context)]
    found, scored = [], 0
    for begin in range(0, tokens, stride):
        end = min(begin + context, tokens)
        found.append((begin, end, max(scored, begin + 1)))
        scored = end
        if end == tokens:
            break
    return found


def scored_rows(model, ids, context, stride, bos):
    """target and log-probabilities of each scored token"""
    for begin, end, first in windows(len(ids), context, stride):
        window = ids[begin:end]
        if bos and not stride:
            window = [BOS] + window[1:]
        rows = logprobs(model, window)
        for i in range(first - begin, end - begin):
            yield window[i], rows[i - 1]


def estimate(values):
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))


def load(name):
    model = transformers.AutoModelForCausalLM.from_pretrained(MODELS / name, dtype=torch.float32, attn_implementation="eager").eval()
    ids = transformers.AutoTokenizer.from_pretrained(MODELS / name)(TEXT, add_special_tokens=False)["input_ids"]
    return model, ids


def saved_logits(name, context, chunks):
    """figures of the model beside those in a file of logits"""
    model, ids = load(name)
    ids, vocab, figures = ids[: context * chunks], model.config.vocab_size, []
    file = logits_file(ids, context, vocab)
    rows_at, width = 20 + 4 * len(ids), 8 + 2 * (vocab + vocab % 2)
    for i, (target, q) in enumerate(scored_rows(model, ids, context, 0, False)):
        row = file[rows_at + i * width:][:width]
        scale, lowest = struct.unpack_from("<ff", row)
        numbers = struct.unpack_from(f"<{vocab}H", row, 8)
        p = lowest + scale * torch.tensor(numbers, dtype=torch.float64)
        kept = torch.tensor(numbers) > 0
        figures.append([-q[target], -p[target], (p.exp() * (p - q))[kept].sum(), (q.exp() * (q - p)).sum()])
    surprise, base, kl, reverse = torch.tensor(figures, dtype=torch.float64).mean(dim=0).tolist()
    found = dict(perplexity=math.exp(surprise), base_perplexity=math.exp(base), kl=kl, reverse_kl=reverse)
    return dict(model=name, context=context, vocab=vocab, ids=ids, **found)


def main():
    record = dict(text=TEXT, bos=BOS, cases=[], pairs=[])
    for name, context, stride, bos in CASES:
        model, ids = load(name)
        if bos:
            ids = [BOS] + ids
        surprise = [-row[target].item() for target, row in scored_rows(model, ids, context, stride, bos)]
        mean, error = estimate(surprise)
        fields = dict(model=name, context=context, stride=stride, bos=bos, tokens=len(surprise))
        record["cases"].append(dict(fields, perplexity=math.exp(mean), error=math.exp(mean) * error))
    for name, base in PAIRS:
        (model, ids), (other, _) = load(name), load(base)
        kl, same, ratio = [], [], []
        for (target, q), (_, p) in zip(scored_rows(model, ids, 64, 0, False), scored_rows(other, ids, 64, 0, False), strict=True):
            kl.append((p.exp() * (p - q)).sum().item())
            same.append(float(p.argmax() == q.argmax()))
            ratio.append((p[target] - q[target]).item())
        ordered = torch.tensor(kl, dtype=torch.float64)
        shares = {n: torch.quantile(ordered, s).item() for n, s in (("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))}
        mean, error = estimate(kl)
        log_ratio, ratio_error = estimate(ratio)
        fields = dict(kl=dict(mean=mean, error=error, **shares), same_best=sum(same) / len(same))
        record["pairs"].append(dict(model=name, against=base, ratio=math.exp(log_ratio), ratio_error=math.exp(log_ratio) * ratio_error, **fields))
    record["saved"] = saved_logits("llama", 64, 6)
    OUT.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
