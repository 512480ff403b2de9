#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/*.json: tiny vocabularies trained here, strings, and the ids their own libraries give.

  pip install tokenizers==0.23.3 sentencepiece==0.2.3
  tools/gen_tokenizer_tests.py [--out DIR] [--random N] [--seed N]

Hugging Face files: {"oracle", "tokenizer": a tokenizer.json, "pre": its name in GGUF or null, "cases": [[text, add_special,
parse_special, ids, decoded]]}. SentencePiece files: {"oracle", "vocab": what GGUF would state, "model": its
tokenizer.model in base64, "cases": the same}. "decoded" is null
where the library's own text is not wanted: byte-level decoders garble added tokens that are not ASCII.
"""
import argparse
import base64
import json
import os
import random
import tempfile

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_strings import CORPUS, NEWER_THAN_NORMALIZERS, PIECES



def strings(seed, count):
    rng = random.Random(seed)
    fixed = ["", " ", "  ", "   x", "x   ", "Hello, world!", " leading", "trailing ", "a  b   c", "\n", "\n\n\n", " \n \n x", "\t\tx = 1;\r\n",
             "It's we'll I'd they've you're I'm 'tis don'T WE'LL", "3 12 123 1234 12345 3.1415 1,000,000", "<|im_start|>user\nhi<|im_end|>\n",
             "<s>text</s>", "a<s> b </s>c", "<mask> a <mask>b<mask>", "<pad>  x  <pad>", "x<tool>y</tool>z", "[X][XY][X", "ok book ok. tokok ok",
             "<|im_<|im_end|>end|>", "na\u00efve\u00c9tat HTTPSession iPhone15Pro don't", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e17\u0e35\u0e48 \u05e2\u05b4\u05d1\u05b0\u05e8\u05b4\u05d9\u05ea e\u0301",
             "Caf\u00e9 d\u00e9j\u00e0 vu \u2014 123 \U0001f60a", "a" * 300, " " * 70 + "b", "ab" * 100, "1" * 50, "\u0301" * 20, "\u6c34" * 40, "Z" * 33 + " " + "Z" * 32,
             "\u2581the \u2581 river", "  <s>  the", "the<unk>the", "'\u017f \u017f's"]
    return fixed + ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 14))) for _ in range(count)]


CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER, LEAD = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[^\r\n\p{L}\p{N}]?"
PATTERNS = {
    "llama-bpe": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES,
    "qwen2": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES,
    "qwen35": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES,
    "gpt-4o": LEAD + UPPER + "*" + LOWER + "+" + CONTRACTIONS + "?|" + LEAD + UPPER + "+" + LOWER + "*" + CONTRACTIONS +
              r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES,
    "tekken": LEAD + UPPER + "*" + LOWER + "+|" + LEAD + UPPER + "+" + LOWER + r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES,
    "unknown": r"'(?:[sdmt]|ll|ve|re)| ?[\p{L}\p{M}]+| ?\p{N}{1,2}| ?[^\s\p{L}\p{N}\p{M}]+|\s+$|\s+(?!\S)|\s",
}
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|"
            "\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def bytes_only():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def chain(*stages):
    return pre_tokenizers.Sequence(list(stages))


SPECIAL = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>"]


def byte_level(pre, normalizer=None, prefix=False, added=(), ignore_merges=False, size=420):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer = pre
    if normalizer is not None:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    t.train_from_iterator([CORPUS] * 2, trainer)
    t.add_tokens(list(added))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    return t


def char_level(normalizer, pre, decoder, added=(), size=450, train_pre=None):
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizer
    t.pre_tokenizer = train_pre or pre_tokenizers.Metaspace(prepend_scheme="never")
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL + ["<0x%02X>" % b for b in range(256)], show_progress=False,
                                  limit_alphabet=90)
    t.train_from_iterator(CORPUS.split("\n"), trainer)
    spec = json.loads(t.to_str())
    # Bytes are no special tokens: they only were put first.
    spec["added_tokens"] = [a for a in spec["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(spec))
    t.normalizer = normalizer
    if pre is None:
        spec = json.loads(t.to_str())
        spec["pre_tokenizer"] = None
        t = Tokenizer.from_str(json.dumps(spec))
    else:
        t.pre_tokenizer = pre
    t.decoder = decoder
    t.add_tokens(list(added))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return t


def variants():
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    odd = [AddedToken("<mask>", lstrip=True, normalized=False), AddedToken("<pad>", rstrip=True, normalized=False, special=True),
           AddedToken("<tool>", normalized=False), AddedToken("</tool>", lstrip=True, rstrip=True, normalized=False),
           AddedToken("[X]", normalized=False), AddedToken("[XY]", normalized=False), AddedToken("ok", single_word=True, normalized=False),
           AddedToken("\u00d6l", normalized=True)]
    yield "byte-gpt-2", "gpt-2", byte_level(gpt2)
    yield "byte-smollm", "smollm", byte_level(chain(pre_tokenizers.Digits(individual_digits=True), gpt2))
    yield "byte-llama-bpe", "llama-bpe", byte_level(chain(split(PATTERNS["llama-bpe"]), bytes_only()), ignore_merges=True)
    yield "byte-qwen2", "qwen2", byte_level(chain(split(PATTERNS["qwen2"]), bytes_only()), normalizers.NFC())
    yield "byte-qwen35", "qwen35", byte_level(chain(split(PATTERNS["qwen35"]), bytes_only()), normalizers.NFC())
    yield "byte-gpt-4o", "gpt-4o", byte_level(chain(split(PATTERNS["gpt-4o"]), bytes_only()), ignore_merges=True)
    yield "byte-tekken", "tekken", byte_level(chain(split(PATTERNS["tekken"]), bytes_only()), ignore_merges=True)
    yield "byte-deepseek", "deepseek-v3", byte_level(chain(*[split(p) for p in DEEPSEEK], bytes_only()))
    yield "byte-added", None, byte_level(gpt2, normalizers.NFC(), added=odd)
    yield "byte-prefix-space", None, byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True), added=odd)
    yield "byte-unknown-pattern", None, byte_level(chain(split(PATTERNS["unknown"], "removed", True), bytes_only()))
    yield "byte-behaviors", None, byte_level(chain(split("[aeiou]+", "merged_with_next"), split(r"\p{P}", "merged_with_previous"),
                                                   split(r"\d", "contiguous"), pre_tokenizers.Split("r", "isolated"), bytes_only()))
    yield "byte-falcon", None, byte_level(chain(pre_tokenizers.Punctuation("contiguous"), gpt2, pre_tokenizers.Digits(), split("[0-9][0-9][0-9]")))
    yield "byte-whitespace", None, byte_level(chain(pre_tokenizers.Whitespace(), bytes_only()), normalizers.Sequence(
        [normalizers.Strip(), normalizers.Lowercase(), normalizers.Replace(Regex("[0-9]+"), "0"), normalizers.NFD()]))
    mark = "\u2581"
    llama = normalizers.Sequence([normalizers.Prepend(mark), normalizers.Replace(" ", mark)])
    llama_decoder = decoders.Sequence([decoders.Replace(mark, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    gemma_decoder = decoders.Sequence([decoders.Replace(mark, " "), decoders.ByteFallback(), decoders.Fuse()])
    yield "char-llama", None, char_level(llama, None, llama_decoder)
    yield "char-llama-added", None, char_level(llama, None, llama_decoder, added=odd[:7])
    yield "char-gemma", None, char_level(normalizers.Replace(" ", mark), pre_tokenizers.Split(" ", "merged_with_previous"), gemma_decoder,
                                         added=[AddedToken(mark * n, normalized=False) for n in (2, 3, 4)] + [AddedToken("\n\n", normalized=False)])
    for scheme in ("first", "always"):
        yield "char-metaspace-" + scheme, None, char_level(normalizers.NFC(), pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme == "always"),
                                                           gemma_decoder)
    # What begins a text is taken away: the library sees the rest as not at its beginning.
    taken = normalizers.Sequence([normalizers.Replace("The ", ""), normalizers.Strip(), normalizers.BertNormalizer(True, False, False, False)])
    yield "char-metaspace-taken", None, char_level(taken, pre_tokenizers.Metaspace(prepend_scheme="first"), gemma_decoder)


def hf_cases(t, texts):
    if t.normalizer is not None:
        texts = [x for x in texts if not any(c in x for c in NEWER_THAN_NORMALIZERS)]
    specials = {a.content for a in t.get_added_tokens_decoder().values() if a.special}
    garbled = any(ord(c) > 126 for a in t.get_added_tokens_decoder().values() for c in a.content)
    cases = []
    for i, text in enumerate(texts):
        parse = i % 2 == 0 or any(s in text for s in specials)
        for parse_special in ([False, True] if parse else [False]):
            t.encode_special_tokens = not parse_special
            ids = t.encode(text, add_special_tokens=i % 3 == 0).ids
            decoded = t.decode(ids, skip_special_tokens=False)
            if garbled or "\ufffd" in decoded:  # bytes that are no UTF-8 are replaced in another way
                decoded = None
            cases.append([text, i % 3 == 0, parse_special, ids, decoded])
    return cases


RULES = [("\ufb01", "fi"), ("\u00bd", "1/2"), ("\t", " "), ("\n", " "), ("\u3000", " "), ("e\u0301", "\u00e9"), ("\u212b", "\u00c5"), ("\u200b", ""), ("\u2460", "(1)")]


def trained_pieces(folder, kind, prefix, symbols, squeeze, mapped):
    corpus = os.path.join(folder, "corpus.txt")
    with open(corpus, "w", encoding="utf-8") as f:
        f.write(CORPUS * 3)
    options = dict(normalization_rule_name="identity")
    if mapped:
        rules = os.path.join(folder, "rules.tsv")
        with open(rules, "w", encoding="utf-8") as f:
            hexes = lambda text: " ".join("%X" % ord(c) for c in text)
            f.writelines("%s\t%s\n" % (hexes(a), hexes(b)) for a, b in RULES)
        options = dict(normalization_rule_tsv=rules)
    sentencepiece.SentencePieceTrainer.train(
        input=corpus, model_prefix=os.path.join(folder, "m"), vocab_size=480, model_type=kind, byte_fallback=not mapped,
        remove_extra_whitespaces=squeeze, add_dummy_prefix=prefix, user_defined_symbols=symbols, control_symbols=["<|im_start|>", "<|im_end|>"],
        character_coverage=0.98, num_threads=1, minloglevel=2, allow_whitespace_only_pieces=True, hard_vocab_limit=kind == "bpe", **options)
    with open(os.path.join(folder, "m.model"), "rb") as f:
        return f.read()


def charsmap_of(model):
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return list(proto.normalizer_spec.precompiled_charsmap)


def sentencepiece_files(texts):
    plain = ["<tool>", "\u2581\u2581", "\u2581\u2581\u2581", "\n", "\n\n", "<h1>"]
    for name, kind, prefix, squeeze, mapped, symbols in (
            ("spm-prefix", "bpe", True, False, False, ["<tool>", "[X]", "[XY]"]), ("spm-plain", "bpe", False, False, False, plain),
            ("unigram-bytes", "unigram", True, False, False, []), ("unigram-map", "unigram", True, True, True, [])):
        with tempfile.TemporaryDirectory() as folder:
            model = trained_pieces(folder, kind, prefix, symbols, squeeze, mapped)
        sp = sentencepiece.SentencePieceProcessor(model_proto=model)
        n = sp.get_piece_size()
        kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 5 if sp.is_unused(i) else
                 4 if sp.id_to_piece(i) in symbols else 1 for i in range(n)]
        tokens = [sp.id_to_piece(i) for i in range(n)]
        if not prefix:  # GGUF stores such runs with real spaces
            tokens = [t.replace("\u2581", " ") if k == 4 else t for t, k in zip(tokens, kinds)]
        vocab = {"model": "llama" if kind == "bpe" else "t5", "tokens": tokens, "scores": [sp.get_score(i) for i in range(n)], "types": kinds, "bos": 1,
                 "eos": 2, "unknown": 0, "add_bos": True, "add_space_prefix": prefix}
        if kind == "unigram":
            vocab.update(add_eos=False, remove_extra_whitespaces=squeeze, charsmap=charsmap_of(model) if mapped else [])
        cases = []
        for i, text in enumerate(texts):
            if "\0" in text:
                continue
            if prefix and any(s in text for s in symbols):
                continue  # behind a user-defined symbol the library puts no prefix space; files for llama.cpp mean that one is put
            add = i % 3 == 0
            kept = not (add or "\ufffd" in text or "\u2581" in text or mapped)
            cases.append([text, add, False, ([1] if add else []) + sp.encode(text), text if kept else None])
        yield name, {"oracle": "sentencepiece " + sentencepiece.__version__, "vocab": vocab, "model": base64.b64encode(model).decode(), "cases": cases}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "tokenizers"))
    parser.add_argument("--random", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    files = []
    for k, (name, pre, t) in enumerate(variants()):
        texts = strings(args.seed + k, args.random)
        cases = hf_cases(t, texts)
        files.append((name, {"oracle": "tokenizers " + tokenizers.__version__, "pre": pre, "tokenizer": json.loads(t.to_str()), "cases": cases}))
    files += sentencepiece_files(strings(args.seed + 100, args.random))
    for name, content in files:
        with open(os.path.join(args.out, name + ".json"), "w", encoding="utf-8") as f:
            head = {k: v for k, v in content.items() if k != "cases"}
            f.write(json.dumps(head)[:-1] + ', "cases": [\n')  # ASCII: odd characters stay visible in a diff
            f.write(",\n".join(json.dumps(c) for c in content["cases"]) + "\n]}\n")
        print(name, len(content["cases"]))


main()
