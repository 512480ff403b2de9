#!/usr/bin/env python3
"""Random tokenizers in many configurations, random strings, and the tokenizers library's ids against weir's.

  pip install tokenizers==0.23.3
  tools/fuzz_tokenizers.py --weir build/release/weir [--seed N] [--configurations N] [--keep DIR]
  tools/fuzz_tokenizers.py --write tests/golden/tokenizers            # the recorded cases that golden_test reads

Prints every configuration whose ids or decoded texts differ, and ends with status 1 if there was one. --keep leaves their tokenizer.json
files in DIR.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_strings import CORPUS, NEWER_THAN_NORMALIZERS, PIECES

MARK = "\u2581"
SPECIAL = ["<s>", "</s>", "<unk>", "<|im_end|>"]
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
PATTERNS = [
    r"\s+", r"\p{L}+", r"\w+|[^\w\s]+", r"[aeiou]+", r"\d", r"\p{P}", r"\p{N}{1,3}", r"'s|'t", r"(?i:'s|THE)", r"[^\s]+", r"\s+(?!\S)|\s+",
    r"(?<=a)b", r"(?<!\s)\p{Lu}", r"\b", r"\B", r"$", r"^", r"\p{Han}+", r"(?=[A-Z])", r"a*?b", r"(?:ab|a)+", r" ?[^(\s|[.,!?\u2026])]+",
    r"[[:alpha:]&&[^a-m]]+", r"\p{N}{1,3}+", r"(?>a+)b?", r"\p{L}++", r"\h+", r"\R", r"(?m).+", r".+", r"x?", r"(?=(\d{3})+(?!\d))",
    r"\d{1,3}(?=(?:\d{3})*\b)", r"[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"\p{Hiragana}|\p{Katakana}", r"[^a-z]", r"(?i)[a-f]+", r"\S+\z", r"\A\S", r"a(?i)b|C", r"(?x) a b # c", r"[a\-z]+", r"[\]\[]", r"\x{61}|\u0062",
    r"a{2}|b{,2}c", r"(?:a|ab)(?:c|bcd)?", r"(\w)+?e", r"[^\p{L}]+|\p{Ll}+|\p{Lu}", r"(?<=\p{L}|\d\d)\p{P}", r"(?<![a-c])[a-z]", r"\Z", r"(?:(?:a|e)*\s?)+",
]


class Maker:
    def __init__(self, rng):
        self.rng, self.one = rng, rng.choice

    def flag(self, chance=0.5):
        return self.rng.random() < chance

    def pattern(self):
        return Regex(self.one(PATTERNS) if self.flag(0.8) else "|".join(self.rng.sample(PATTERNS, 2)))

    def normalizer(self, depth=0):
        n, one, flag = normalizers, self.one, self.flag
        if depth < 2 and flag(0.2):
            return n.Sequence([self.normalizer(depth + 1) for _ in range(self.rng.randint(1, 3))])
        return one([
            n.NFC, n.NFD, n.NFKC, n.NFKD, n.Lowercase, n.StripAccents, n.Nmt, lambda: n.Strip(flag(), flag()),
            lambda: n.Replace(one([" ", "a", "ab", "e", "  "]), one([MARK, "", "x", " y"])),
            lambda: n.Replace(self.pattern(), one([MARK, "", " ", "z"])), lambda: n.Prepend(one([MARK, "x"])),
            lambda: n.BertNormalizer(flag(), flag(), one([True, False, None]), flag())])()

    def pre_tokenizer(self, depth=0):
        p, one, flag = pre_tokenizers, self.one, self.flag
        if depth < 2 and flag(0.25):
            return p.Sequence([self.pre_tokenizer(depth + 1) for _ in range(self.rng.randint(1, 3))])
        by_pattern = lambda: p.Split(self.pattern(), one(BEHAVIORS), flag())
        return one([
            by_pattern, by_pattern, by_pattern, lambda: p.Split(one([" ", "a", "the", "\n"]), one(BEHAVIORS), flag()),
            lambda: p.Digits(flag()), lambda: p.Punctuation(one(BEHAVIORS)), p.Whitespace, p.WhitespaceSplit,
            lambda: p.Metaspace(MARK, one(["always", "first", "never"]), flag()), p.BertPreTokenizer, p.UnicodeScripts,
            lambda: p.CharDelimiterSplit(one(["a", " ", "\u00e9"])), lambda: p.FixedLength(self.rng.randint(1, 5))])()

    def add_tokens(self, t):
        contents = ["<mask>", "<pad>", "<tool>", "[X]", "[XY]", "ok", "\u00d6l", "the", " a", "\n\n", "  ", "\u00e9", "<|im_start|>x", "Weir", "12"]
        for content in self.rng.sample(contents, self.rng.randint(0, 5)):
            special = self.flag(0.3) and content not in t.get_vocab()  # weir never makes a control token of plain text; the library does
            token = AddedToken(content, single_word=self.flag(0.3), lstrip=self.flag(0.3), rstrip=self.flag(0.3), normalized=self.flag(0.4),
                               special=special)
            t.add_special_tokens([token]) if token.special else t.add_tokens([token])

    def model(self, kind, size):
        one, flag, quiet = self.one, self.flag, dict(show_progress=False)
        if kind == "byte-bpe":
            alphabet = pre_tokenizers.ByteLevel.alphabet() if flag(0.8) else []
            return (models.BPE(ignore_merges=flag()), decoders.ByteLevel(),
                    trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, initial_alphabet=alphabet, **quiet))
        if kind == "bpe":
            affixes = {}
            if flag(0.3):
                affixes["end_of_word_suffix"] = "</w>"
            if flag(0.3):
                affixes["continuing_subword_prefix"] = "##"
            fallback = flag()
            steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()] + [decoders.Strip(" ", 1, 0)] * flag()
            decoder = decoders.BPEDecoder() if "end_of_word_suffix" in affixes else decoders.Sequence(steps)
            model = models.BPE(unk_token="<unk>" if flag(0.7) else None, fuse_unk=flag(), byte_fallback=fallback, ignore_merges=flag(), **affixes)
            return model, decoder, trainers.BpeTrainer(
                vocab_size=size, special_tokens=SPECIAL + ["<0x%02X>" % b for b in range(256)] * fallback,
                limit_alphabet=self.rng.randint(40, 120), **affixes, **quiet)
        if kind == "unigram":
            return (models.Unigram(), decoders.Metaspace(MARK, one(["always", "first", "never"])),
                    trainers.UnigramTrainer(vocab_size=size, special_tokens=SPECIAL, unk_token="<unk>", **quiet))
        if kind == "wordpiece":
            return (models.WordPiece(unk_token="<unk>", max_input_chars_per_word=one([5, 100])), decoders.WordPiece("##", flag()),
                    trainers.WordPieceTrainer(vocab_size=size, special_tokens=SPECIAL, **quiet))
        return models.WordLevel(unk_token="<unk>"), None, trainers.WordLevelTrainer(vocab_size=size, special_tokens=SPECIAL, **quiet)

    def post_processor(self):
        template = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
        return self.one([template, processors.BertProcessing(("</s>", 1), ("<s>", 0)), processors.RobertaProcessing(("</s>", 1), ("<s>", 0)),
                         processors.ByteLevel(), processors.Sequence([processors.ByteLevel(), template])])

    def tokenizer(self, size=None):
        kind = self.one(["bpe", "bpe", "byte-bpe", "byte-bpe", "unigram", "unigram", "wordpiece", "wordlevel"])
        normalizer = self.normalizer() if self.flag(0.6) else None
        pre = self.pre_tokenizer() if self.flag(0.8) else None
        if kind == "byte-bpe":
            level = pre_tokenizers.ByteLevel(add_prefix_space=self.flag(), use_regex=self.flag())
            pre = level if pre is None else pre_tokenizers.Sequence([pre, level])
        model, decoder, trainer = self.model(kind, size or self.rng.randint(300, 600))
        t = Tokenizer(model)
        if normalizer is not None:
            t.normalizer = normalizer
        if pre is not None:
            t.pre_tokenizer = pre
        t.train_from_iterator(CORPUS.split("\n"), trainer)
        spec = json.loads(t.to_str())
        if kind == "unigram" and self.flag(0.4):
            spec["model"]["vocab"] += [["<0x%02X>" % b, -20.0] for b in range(256)]
            spec["model"]["byte_fallback"] = True
        # Bytes are no special tokens: they only were put first.
        spec["added_tokens"] = [a for a in spec["added_tokens"] if not a["content"].startswith("<0x")]
        t = Tokenizer.from_str(json.dumps(spec))
        if decoder is not None:
            t.decoder = decoder
        self.add_tokens(t)
        t.post_processor = self.post_processor()
        return kind, t

    def text(self):
        words = PIECES + ["the weir ", "The river", "water, ", " holds", "12345"]
        text = "".join(self.one(words) for _ in range(self.rng.randint(0, 12)))
        return "".join(c for c in text if c not in NEWER_THAN_NORMALIZERS)


def recorded_cases(maker, t, count):
    """[text, add_special, parse_special, ids, decoded or null], as golden_test.cpp reads them."""
    added = t.get_added_tokens_decoder().values()
    specials = [a.content for a in added if a.special]
    byte_level = "ByteLevel" in str(t.decoder)
    garbled = byte_level and any(ord(c) > 126 for a in added for c in a.content)  # added tokens are text, not bytes spelt as characters
    cases = []
    for _ in range(count):
        text, add, parse = maker.text(), maker.flag(), maker.flag()
        # The library lets a model make control tokens of text; weir does not.
        if not parse and any(s in text for s in specials):
            parse = True
        t.encode_special_tokens = not parse
        try:
            ids = t.encode(text, add_special_tokens=add).ids
        except BaseException:  # an unknown character without an unknown token; a panic of the library
            continue
        decoded = t.decode(ids, skip_special_tokens=False)
        cases.append([text, add, parse, ids, None if garbled or "\ufffd" in decoded else decoded])
    return cases


def answers(weir, command, path, requests):
    run = subprocess.run([weir, command, path, "--json"], input="".join(json.dumps(r) + "\n" for r in requests).encode(), capture_output=True)
    if run.returncode != 0:
        return None, run.stderr.decode()[-300:]
    return [json.loads(line) for line in run.stdout.decode().rstrip("\n").split("\n")], ""


def differences(weir, path, cases):
    out, why = answers(weir, "tokenize", path, [dict(text=c[0], add_special=c[1], parse_special=c[2]) for c in cases])
    if out is None:
        return ["refused: " + why]
    found = ["%s add=%d parse=%d\n  want %s\n  got  %s" % (ascii(c[0]), c[1], c[2], c[3], o.get("ids")) for c, o in zip(cases, out) if o.get("ids") != c[3]]
    out, _ = answers(weir, "detokenize", path, [dict(ids=c[3]) for c in cases])
    return found + ["decoding %s\n  want %s\n  got  %s" % (c[3], ascii(c[4]), ascii(o.get("text"))) for c, o in zip(cases, out)
                    if c[4] is not None and o.get("text") != c[4]]


def write(folder, seeds):
    for seed in seeds:
        maker = Maker(random.Random(seed))
        kind, t = maker.tokenizer(280)
        cases = recorded_cases(maker, t, 40)
        with open(os.path.join(folder, "random-%d-%s.json" % (seed, kind)), "w", encoding="utf-8") as f:
            f.write(json.dumps({"oracle": "tokenizers " + tokenizers.__version__, "pre": None, "tokenizer": json.loads(t.to_str())})[:-1])
            f.write(', "cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--configurations", type=int, default=200)
    parser.add_argument("--keep")
    parser.add_argument("--write", metavar="DIR")
    args = parser.parse_args()
    if args.write:
        return write(args.write, range(1, 21))
    bad = total = 0
    for number in range(args.configurations):
        maker = Maker(random.Random("%d-%d" % (args.seed, number)))
        try:
            kind, t = maker.tokenizer()
        except BaseException:  # the trainer found nothing to train on
            continue
        cases = recorded_cases(maker, t, 60)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(t.to_str())
            file.flush()
            found = differences(args.weir, file.name, cases)
        total += len(cases)
        if not found:
            continue
        bad += 1
        spec = json.loads(t.to_str())
        shown = {k: v for k, v in spec["model"].items() if k not in ("vocab", "merges")}
        print("%d %s: %d differences, the first: %s" % (number, kind, len(found), found[0]))
        for part in ("normalizer", "pre_tokenizer", "decoder"):
            print("  %s %s" % (part, json.dumps(spec[part])))
        print("  added %s\n  model %s" % (json.dumps(spec["added_tokens"][len(SPECIAL):]), shown), flush=True)
        if args.keep:
            os.makedirs(args.keep, exist_ok=True)
            with open(os.path.join(args.keep, "%d-%d.json" % (args.seed, number)), "w") as f:
                f.write(t.to_str())
    print("%d configurations, %d cases, %d configurations differ" % (args.configurations, total, bad))
    return bad > 0


sys.exit(main())
