"""Models with random weights in BF16, as a GGUF file and as a Hugging Face folder that hold the same values.

Speed does not depend on the values of weights, so a benchmark needs no download. Pure Python: 2 GB take about half a minute.
"""
import dataclasses
import json
import random
import struct

GGUF_U32, GGUF_F32, GGUF_STRING, GGUF_ARRAY, GGUF_U64 = 4, 6, 8, 9, 10
GGUF_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, GGUF_U32: 4, 5: 4, GGUF_F32: 4, 7: 1, GGUF_U64: 8, 11: 8, 12: 8}
TENSOR_F32, TENSOR_BF16 = 0, 30
ALIGNMENT = 32
# The upper byte of a BF16 value: its sign and most of its exponent. Three quarters of the values are between 2^-7 and 2^-5 in size, the
# rest a quarter of that: about what rows of some thousand elements have after training.
UPPER_BYTE = bytes((0x80 if i & 1 else 0) | (0x3B if i % 8 < 2 else 0x3C) for i in range(256))
BF16_ONE = b"\x80\x3f"


@dataclasses.dataclass
class Shape:
    """A Llama. The defaults are a model of 1.17 billion parameters."""

    layers: int = 16
    hidden: int = 2048
    ffn: int = 8192
    heads: int = 32
    kv_heads: int = 8
    vocab: int = 49152
    context: int = 32768

    @property
    def head_dim(self):
        return self.hidden // self.heads

    def tensors(self):
        """(name in GGUF, name in safetensors, rows, columns); 0 rows: a norm."""
        kv = self.kv_heads * self.head_dim
        yield "token_embd", "model.embed_tokens", self.vocab, self.hidden
        for i in range(self.layers):
            ours, theirs = f"blk.{i}.", f"model.layers.{i}."
            yield ours + "attn_norm", theirs + "input_layernorm", 0, self.hidden
            yield ours + "attn_q", theirs + "self_attn.q_proj", self.hidden, self.hidden
            yield ours + "attn_k", theirs + "self_attn.k_proj", kv, self.hidden
            yield ours + "attn_v", theirs + "self_attn.v_proj", kv, self.hidden
            yield ours + "attn_output", theirs + "self_attn.o_proj", self.hidden, self.hidden
            yield ours + "ffn_norm", theirs + "post_attention_layernorm", 0, self.hidden
            yield ours + "ffn_gate", theirs + "mlp.gate_proj", self.ffn, self.hidden
            yield ours + "ffn_up", theirs + "mlp.up_proj", self.ffn, self.hidden
            yield ours + "ffn_down", theirs + "mlp.down_proj", self.hidden, self.ffn
        yield "output_norm", "model.norm", 0, self.hidden
        yield "output", "lm_head", self.vocab, self.hidden


def bf16_values(seed_text, count):
    source = random.Random(seed_text)
    values = bytearray(2 * count)
    values[0::2] = source.randbytes(count)
    values[1::2] = source.randbytes(count).translate(UPPER_BYTE)
    return values


def in_adjacent_pairs(values, heads, row_bytes):
    """Rows of q or k as GGUF's Llama wants them: RoPE turns neighbours there, and elements half a head apart in Hugging Face's order."""
    rows = [values[i : i + row_bytes] for i in range(0, len(values), row_bytes)]
    half = len(rows) // heads // 2
    order = (head * 2 * half + side * half + i for head in range(heads) for i in range(half) for side in (0, 1))
    return b"".join(rows[i] for i in order)


def gguf_string(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def key_value(key, value_type, packed):
    return gguf_string(key) + struct.pack("<I", value_type) + packed


def skip_value(f, value_type):
    if value_type == GGUF_STRING:
        f.seek(struct.unpack("<Q", f.read(8))[0], 1)
    elif value_type == GGUF_ARRAY:
        element, count = struct.unpack("<IQ", f.read(12))
        if element in GGUF_SCALAR_BYTES:
            f.seek(count * GGUF_SCALAR_BYTES[element], 1)
        else:
            for _ in range(count):
                skip_value(f, element)
    else:
        f.seek(GGUF_SCALAR_BYTES[value_type], 1)


def tokenizer_of(path):
    """The tokenizer's entries of a GGUF file's header, as they lie there: a list of packed key-value pairs."""
    found = []
    with open(path, "rb") as f:
        magic, version, _, entries = struct.unpack("<4sIQQ", f.read(24))
        if magic != b"GGUF" or version not in (2, 3):
            raise SystemExit(f"{path} is no GGUF file of version 2 or 3")
        for _ in range(entries):
            begin = f.tell()
            key = f.read(struct.unpack("<Q", f.read(8))[0])
            skip_value(f, struct.unpack("<I", f.read(4))[0])
            if key.startswith(b"tokenizer."):
                end = f.tell()
                f.seek(begin)
                found.append(f.read(end - begin))
    return found


def gguf_metadata(shape, tokenizer):
    def u32(key, value):
        return key_value(key, GGUF_U32, struct.pack("<I", value))

    def f32(key, value):
        return key_value(key, GGUF_F32, struct.pack("<f", value))

    pairs = [key_value("general.architecture", GGUF_STRING, gguf_string("llama"))]
    pairs += [u32("general.file_type", 32), u32("llama.block_count", shape.layers), u32("llama.context_length", shape.context)]
    pairs += [u32("llama.embedding_length", shape.hidden), u32("llama.feed_forward_length", shape.ffn)]
    pairs += [u32("llama.attention.head_count", shape.heads), u32("llama.attention.head_count_kv", shape.kv_heads)]
    pairs += [u32("llama.rope.dimension_count", shape.head_dim), u32("llama.vocab_size", shape.vocab)]
    pairs += [f32("llama.rope.freq_base", 100000.0), f32("llama.attention.layer_norm_rms_epsilon", 1e-5)]
    return pairs + (tokenizer or [key_value("tokenizer.ggml.model", GGUF_STRING, gguf_string("no_vocab"))])


def write_gguf(path, shape, seed, tokenizer=None):
    """Without a tokenizer the file serves programs that feed token ids only."""
    pairs, tensors, infos, offset = gguf_metadata(shape, tokenizer), list(shape.tensors()), [], 0
    for name, _, rows, columns in tensors:
        dims = [columns, rows] if rows else [columns]
        infos.append(gguf_string(name + ".weight") + struct.pack(f"<I{len(dims)}Q", len(dims), *dims))
        infos[-1] += struct.pack("<IQ", TENSOR_BF16 if rows else TENSOR_F32, offset)
        offset += -(-(2 * rows * columns or 4 * columns) // ALIGNMENT) * ALIGNMENT
    with open(path, "wb") as f:
        f.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs)) + b"".join(pairs) + b"".join(infos))
        for name, _, rows, columns in tensors:
            f.write(bytes(-f.tell() % ALIGNMENT))
            if not rows:
                f.write(struct.pack("<f", 1.0) * columns)
                continue
            values = bf16_values(f"{seed} {name}", rows * columns)
            if name.endswith((".attn_q", ".attn_k")):
                values = in_adjacent_pairs(values, shape.heads if name.endswith("q") else shape.kv_heads, 2 * columns)
            f.write(values)
        f.write(bytes(-f.tell() % ALIGNMENT))


def write_folder(folder, shape, seed):
    """config.json and model.safetensors; no tokenizer."""
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", torch_dtype="bfloat16", hidden_act="silu")
    config |= dict(num_hidden_layers=shape.layers, hidden_size=shape.hidden, intermediate_size=shape.ffn, vocab_size=shape.vocab)
    config |= dict(num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim)
    config |= dict(max_position_embeddings=shape.context, rope_theta=100000.0, rms_norm_eps=1e-5, tie_word_embeddings=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config | dict(bos_token_id=1, eos_token_id=2), indent=1) + "\n")
    header, offset = {}, 0
    for _, name, rows, columns in shape.tensors():
        size = 2 * (rows or 1) * columns
        dims = [rows, columns] if rows else [columns]
        header[name + ".weight"] = dict(dtype="BF16", shape=dims, data_offsets=[offset, offset + size])
        offset += size
    packed = json.dumps(header).encode()
    packed += b" " * (-len(packed) % 8)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(packed)) + packed)
        for gguf_name, _, rows, columns in shape.tensors():
            f.write(bf16_values(f"{seed} {gguf_name}", rows * columns) if rows else BF16_ONE * columns)
