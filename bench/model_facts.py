"""What a step of a model has to read and compute at least, and what that takes on a machine at its limits."""
import json
import subprocess
import typing

# Which peaks bound products with weights of a type, the highest of them; all other types are multiplied in int8.
EXACT_TYPES = {"F32": ["f32_gops"], "F16": ["f32_gops", "bf16_gops"], "BF16": ["f32_gops", "bf16_gops"]}


class Facts(typing.NamedTuple):
    name: str
    parameters: int
    step_bytes: float  # of weights that a step of one sequence reads
    layer_weights: float  # multiplied for every token
    output_weights: float  # multiplied for every token whose logits are wanted
    kv_bytes: float  # per token of one layer
    attention_width: int  # query heads x their size
    windows: list  # per layer, in tokens; 0: everything
    peaks: list  # of `weir bench machine` that bound the linear layers


def facts_of(weir, model):
    listing = subprocess.run([weir, "inspect", model, "--json"], check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    info = json.loads(listing.stdout)
    tensors, tied = info["tensors"], info["tied_embeddings"]
    embedding = next(t for t in tensors if "token_embd" in t["name"] or "embed_tokens" in t["name"])
    head = embedding if tied else next(t for t in tensors if t["name"] in ("output.weight", "lm_head.weight"))
    layers = [t for t in tensors if t is not embedding and t is not head]
    main_type = max(info["types"].items(), key=lambda item: item[1]["bytes"])[0]
    return Facts(
        name=str(info["name"]),
        parameters=int(info["parameters"]),
        step_bytes=sum(t["bytes"] for t in layers) + head["bytes"],
        layer_weights=sum(elements(t) for t in layers if len(t["shape"]) > 1),
        output_weights=elements(head),
        kv_bytes=info["kv_bytes_per_token"]["f16"] / info["layers"],
        attention_width=info["heads"] * info["head_dim"],
        windows=info["windows"],
        peaks=EXACT_TYPES.get(main_type, ["int8_gops"]),
    )


def elements(tensor):
    count = 1
    for extent in tensor["shape"]:
        count *= extent
    return count


def attention_ops(facts, first, last):
    """Multiplications and additions for the queries at positions first .. last - 1: scores and the weighted sum of values."""
    seen = 0
    for window in facts.windows:
        inside = last if window == 0 else min(window, last)
        growing = max(0, inside - first)
        seen += growing * (first + 1 + first + growing) / 2 + (last - first - growing) * inside
    return 4 * facts.attention_width * seen


def bound_tok_s(facts, peaks, figure, work):
    """The most tokens per second of prefill or decode that reading weights and KV once, and the arithmetic peaks, allow."""
    highest = lambda names: max(peaks[name] for name in names) * 1e9
    read, linear, attention = peaks["read_gb_s"] * 1e9, highest(facts.peaks), highest(["bf16_gops", "f32_gops"])
    if figure == "prefill":
        tokens = work.prompt * work.sequences
        ops = 2 * (facts.layer_weights * tokens + facts.output_weights * work.sequences)
        compute_s = ops / linear + work.sequences * attention_ops(facts, 0, work.prompt) / attention
        return tokens / max(compute_s, facts.step_bytes / read)
    middle = work.prompt + work.output // 2
    kv = sum(facts.kv_bytes * (min(window, middle) if window else middle) for window in facts.windows)
    compute_s = 2 * (facts.layer_weights + facts.output_weights) * work.sequences / linear
    return work.sequences / max(compute_s, (facts.step_bytes + kv * work.sequences) / read)
