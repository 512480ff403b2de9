#!/usr/bin/env python3
"""Writes small valid inputs for the fuzz targets: FOLDER/{gguf,safetensors,tokenizer,jinja,http}/. Same files every time.
They come beside those of corpus/, which are cut from real files.

  make_corpus.py FOLDER
"""
import json
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "models"

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10


def gguf(version, keys, tensors, alignment=32):
    """keys: [(name, type, value)], an array's value being (element type, [values]); tensors: [(name, shape, dtype, bytes)]"""

    def string(s):
        s = s.encode()
        return struct.pack("<Q", len(s)) + s

    def value(kind, v):
        if kind == STRING:
            return string(v)
        if kind == ARRAY:
            element, items = v
            return struct.pack("<IQ", element, len(items)) + b"".join(value(element, x) for x in items)
        return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}[kind], v)

    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, v in keys:
        out += string(name) + struct.pack("<I", kind) + value(kind, v)
    data = b""
    for name, shape, dtype, content in tensors:
        data += b"\0" * (-len(data) % alignment)
        out += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, dtype, len(data))
        data += content
    return out + b"\0" * (-len(out) % alignment) + data


def gguf_seeds():
    tokens = ["<unk>", "<s>", "</s>", "\u2581a", "b", "ab", "<0x0A>", "c"]
    keys = [
        ("general.architecture", STRING, "llama"),
        ("general.alignment", U32, 32),
        ("llama.block_count", U32, 1),
        ("llama.context_length", U32, 64),
        ("llama.embedding_length", U32, 8),
        ("llama.feed_forward_length", U32, 8),
        ("llama.attention.head_count", U32, 2),
        ("llama.attention.head_count_kv", U32, 1),
        ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        ("llama.rope.freq_base", F32, 10000.0),
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.scores", ARRAY, (F32, [-float(i) for i in range(len(tokens))])),
        ("tokenizer.ggml.token_type", ARRAY, (I32, [2, 3, 3, 1, 1, 1, 6, 1])),
        ("tokenizer.ggml.bos_token_id", U32, 1),
        ("tokenizer.ggml.eos_token_id", U32, 2),
        ("tokenizer.ggml.add_bos_token", BOOL, True),
        ("tokenizer.chat_template", STRING, "{% for m in messages %}{{ m.content }}{% endfor %}"),
    ]
    shapes = {
        "token_embd": [8, 8], "output_norm": [8], "blk.0.attn_norm": [8], "blk.0.attn_q": [8, 8], "blk.0.attn_k": [8, 4],
        "blk.0.attn_v": [8, 4], "blk.0.attn_output": [8, 8], "blk.0.ffn_norm": [8], "blk.0.ffn_gate": [8, 8],
        "blk.0.ffn_up": [8, 8], "blk.0.ffn_down": [8, 8],
    }
    tensors = []
    for name, shape in shapes.items():
        count = 1
        for n in shape:
            count *= n
        tensors.append((name + ".weight", shape, 0, struct.pack(f"<{count}f", *[0.01 * i for i in range(count)])))
    model = gguf(3, keys, tensors)
    yield "model", model
    yield "version-2", gguf(2, keys, tensors)
    yield "keys-only", gguf(3, keys, [])
    yield "aligned-to-64", gguf(3, [("general.alignment", U32, 64)] + keys[2:], tensors, 64)
    yield "quantised", gguf(3, keys[:1], [("a", [32, 2], 2, bytes(36)), ("b", [256], 12, bytes(144)), ("c", [32], 8, bytes(34))])
    nested = [("deep", ARRAY, (ARRAY, [(U32, [1, 2]), (U32, [3])]))]
    yield "nested-arrays", gguf(3, nested, [])
    yield "empty", gguf(3, [], [])


def safetensors_seeds():
    def file(header, data):
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data

    one = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    two = {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]}
    yield "one", file({"model.norm.weight": one}, bytes(16))
    yield "two", file({"__metadata__": {"format": "pt"}, "a": one, "b": two}, bytes(24))
    yield "scalar", file({"x": {"dtype": "F16", "shape": [], "data_offsets": [0, 2]}}, bytes(2))
    yield "none", file({}, b"")
    yield "padded", struct.pack("<Q", 16) + b"{}              "


def tokenizer_seeds():
    golden = (GOLDEN / "llama" / "tokenizer.json").read_bytes()
    yield "byte-level", golden
    spm = {
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": "<s>", "special": True, "lstrip": False, "rstrip": True,
                          "single_word": False, "normalized": False}],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "byte_fallback": True, "unk_token": "<s>",
                  "vocab": {"<s>": 0, "\u2581": 1, "a": 2, "\u2581a": 3, "<0x0A>": 4}, "merges": [["\u2581", "a"]]},
    }
    yield "sentencepiece", json.dumps(spm).encode()
    split = json.loads(golden)
    split["normalizer"] = {"type": "NFC"}
    split["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+"}, "behavior": "Isolated",
         "invert": False},
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False, "trim_offsets": True}]}
    yield "split-by-regex", json.dumps(split).encode()
    text = "Hello,  naïve wörld!\n\n\t你好 😀 e\u0301 1234 <|im_start|>user\u200d".encode()
    yield "byte-level-with-text", golden + b"\xff" + text
    yield "sentencepiece-with-text", json.dumps(spm).encode() + b"\xff" + text
    # The target's own short form of a vocabulary: two bytes of choices, a line per token, merges.
    lines = [b"\x01!Hello", b"\x01!H", b"\x01!e", b"\x03!<|im_start|>", b"mH e"]
    yield "lines", b"\x01\x02" + b"\n".join(lines) + b"\xff" + text


def hf_quantised_seeds():
    for folder in sorted(GOLDEN.glob("quant-*")):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        small = {k: v for k, v in config.items() if k == "quantization_config"}
        weights = (folder / "model.safetensors").read_bytes()
        header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
        chosen = {k: v for k, v in header.items() if "k_proj" in k}  # one layer's smallest matrix
        data, entries = b"", {}
        base = len(weights) - max(v["data_offsets"][1] for k, v in header.items() if k != "__metadata__")
        for name, entry in chosen.items():
            begin, end = entry["data_offsets"]
            entries[name] = dict(entry, data_offsets=[len(data), len(data) + end - begin])
            data += weights[base + begin : base + end]
        head = json.dumps(entries).encode()
        yield folder.name, json.dumps(small).encode() + b"\0" + len(head).to_bytes(8, "little") + head + data


def jinja_seeds():
    texts = {
        "chat": (GOLDEN / "llama" / "chat_template.jinja").read_text(encoding="utf-8"),
        "loop": "{%- for k, v in {'a': 1, 'b': [2, 3]}.items() if v is not none -%}{{ loop.index0 }}{{ k ~ v }}{%- else %}none{% endfor %}",
        "macro": "{% macro f(x, y=2, *a, **k) %}{{ x * y }}{% endmacro %}{{ f(3) }}{{ f(x='q') }}{% call f(1) %}x{% endcall %}",
        "set": "{% set ns = namespace(n=0) %}{% for i in range(5) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}{% set t %}b{% endset %}{{ t }}",
        "filters": "{{ ' a,b '|trim|replace(',', '-')|upper }}{{ [3, 1, 2]|sort|join(' ') }}{{ {'z': 1}|tojson(indent=2) }}{{ x|default('d', true) }}",
        "tests": "{% if a is defined and a is not string or 3 is divisibleby 3 and 'x' in 'xyz' %}y{% elif not b %}n{% endif %}",
        "slices": "{{ 'hello'[1:-1:2] }}{{ [1, 2, 3][::-1] }}{{ (1, 2)[0] }}{{ 'a' if 1 < 2 <= 3 else 'b' }}{{ 7 // 2 ** 2 % 5 - -1.5e3 }}",
        "white": "a  {#- comment -#}  b\n{%+ if true %}\n  c\n{%- endif -%}\n{{- 'd' -}}{% raw %}{{ x }}{% endraw %}",
        "selectattr": "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|list|last }}{{ messages|length }}",
        "error": "{{ raise_exception('no: ' ~ messages[0]['role']) }}",
    }
    for name, text in texts.items():
        yield name, text.encode()
    yield "with-context", "{{ a.b[0] }}{% for x in c %}{{ x }}{% endfor %}".encode() + b'\0{"a": {"b": [1.5]}, "c": ["x", null]}'


def http_seeds():
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi 😀"}], "stream": True, "max_tokens": 5}).encode()
    head = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    yield "health", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield "old", b"GET /metrics HTTP/1.0\r\n\r\n"
    yield "two", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\nConnection: close\r\n\r\n"
    yield "chat", head.format("/v1/chat/completions").encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    text = json.dumps({"prompt": [1, 2, 3], "n": 2, "stop": ["a", "b"], "logit_bias": {"5": -1.5}, "temperature": 0.5}).encode()
    yield "completion", head.format("/v1/completions").encode() + b"Content-Length: %d\r\n\r\n" % len(text) + text
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text)
    yield "chunked", head.format("/tokenize").encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    yield "expect", head.format("/detokenize").encode() + b"Expect: 100-continue\r\nContent-Length: 14\r\n\r\n" + b'{"tokens":[1]}'
    yield "json", body


def main():
    out = pathlib.Path(sys.argv[1])
    makers = dict(
        gguf=gguf_seeds, safetensors=safetensors_seeds, hf_quantised=hf_quantised_seeds, tokenizer=tokenizer_seeds, jinja=jinja_seeds, http=http_seeds
    )
    for target, seeds in makers.items():
        folder = out / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
