#!/usr/bin/env python3
"""`weir perplexity` beside what the reference library computes (tests/golden/perplexity.json, tools/gen_perplexity.py)."""
import json
import math
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from weir_server import GOLDEN, PATIENCE_S, ROOT, program

RECORD = ROOT / "tests" / "golden" / "perplexity.json"
QUICK = ("--threads", "1")


def logits_file(tokens, context, vocab, seed=3):
    """what llama-perplexity --save-all-logits writes, for a model that answers at random"""
    draw, chunks = random.Random(seed), len(tokens) // context
    parts = [struct.pack("<8siii", b"_logits_", context, vocab, chunks), struct.pack(f"<{chunks * context}i", *tokens[: chunks * context])]
    for _ in range(chunks * (context - 1 - context // 2)):
        scale, padded = draw.uniform(1e-5, 1.2e-4), vocab + vocab % 2
        numbers = [draw.choice((0, draw.randrange(65536))) for _ in range(vocab)] + [0] * (padded - vocab)
        lowest = -math.log(sum(math.exp(scale * n) for n in numbers[:vocab]))
        parts += [struct.pack("<ff", scale, lowest), struct.pack(f"<{padded}H", *numbers)]
    return b"".join(parts)


class Perplexity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.record = json.loads(RECORD.read_text(encoding="utf-8"))
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="weir-perplexity-"))
        cls.addClassCleanup(shutil.rmtree, cls.home)
        cls.text = cls.home / "text"
        cls.text.write_text(cls.record["text"], encoding="utf-8")

    def run_weir(self, model, *arguments, text=None):
        command = [program(), "perplexity", model, "--text", text or self.text, *QUICK, *arguments]
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=PATIENCE_S)

    def measure(self, model, *arguments, **options):
        run = self.run_weir(model, *arguments, "--json", **options)
        self.assertEqual(0, run.returncode, run.stderr)
        return json.loads(run.stdout)

    def with_bos(self, name):
        """the model's folder with a tokenizer that begins every text with a BOS"""
        folder = self.home / (name + "-bos")
        if not folder.exists():
            shutil.copytree(GOLDEN / name, folder)
            tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
            token = next(t["content"] for t in tokenizer["added_tokens"] if t["id"] == self.record["bos"])
            special = {"SpecialToken": {"id": token, "type_id": 0}}
            single = [special, {"Sequence": {"id": "A", "type_id": 0}}]
            pair = single + [{"Sequence": {"id": "B", "type_id": 1}}]
            tokens = {token: dict(id=token, ids=[self.record["bos"]], tokens=[token])}
            tokenizer["post_processor"] = dict(type="TemplateProcessing", single=single, pair=pair, special_tokens=tokens)
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
            config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
            (folder / "tokenizer_config.json").write_text(json.dumps(config | dict(bos_token=token)), encoding="utf-8")
        return folder

    def close(self, wanted, got, relative):
        self.assertLess(abs(wanted - got), relative * abs(wanted) + 1e-12, (wanted, got))

    def test_perplexity_is_the_references(self):
        for case in self.record["cases"]:
            with self.subTest(**case):
                model = self.with_bos(case["model"]) if case["bos"] else GOLDEN / case["model"]
                stride = ("--stride", case["stride"]) if case["stride"] else ()
                got = self.measure(model, "--context", case["context"], *stride)
                self.assertEqual(case["tokens"], got["tokens"])
                self.close(case["perplexity"], got["perplexity"]["mean"], 1e-5)
                self.close(case["error"], got["perplexity"]["error"], 1e-4)

    def test_divergence_is_the_references(self):
        for pair in self.record["pairs"]:
            with self.subTest(model=pair["model"]):
                exact = ("--compute", "exact", "--kv-cache-dtype", "f32")
                got = self.measure(GOLDEN / pair["model"], "--against", GOLDEN / pair["against"], "--context", 64, *exact)["against"]
                for name in ("mean", "error", "median", "p90", "p99", "max"):
                    # Of a model against itself only rounding is left.
                    self.assertLess(abs(pair["kl"][name] - got["kl"][name]), 1e-4 * pair["kl"][name] + 1e-6, name)
                self.close(pair["ratio"], got["perplexity_ratio"]["mean"], 1e-5)
                self.assertLess(abs(pair["ratio_error"] - got["perplexity_ratio"]["error"]), 1e-4 * pair["ratio_error"] + 1e-6)
                self.assertLess(abs(pair["same_best"] - got["same_best"]["mean"]), 2e-3)

    def test_divergence_from_saved_logits_is_the_references(self):
        saved = self.record["saved"]
        file = self.home / "logits"
        file.write_bytes(logits_file(saved["ids"], saved["context"], saved["vocab"]))
        run = subprocess.run(
            [program(), "perplexity", GOLDEN / saved["model"], "--against-logits", file, "--json", *QUICK], capture_output=True, text=True
        )
        self.assertEqual(0, run.returncode, run.stderr)
        got = json.loads(run.stdout)
        self.close(saved["perplexity"], got["perplexity"]["mean"], 1e-5)
        self.close(saved["base_perplexity"], got["against"]["perplexity"]["mean"], 1e-5)
        self.close(saved["kl"], got["against"]["kl"]["mean"], 1e-5)
        self.close(saved["reverse_kl"], got["against"]["reverse_kl"]["mean"], 1e-5)

    def test_saved_logits_that_lie(self):
        saved = self.record["saved"]
        good = logits_file(saved["ids"], saved["context"], saved["vocab"])
        file = self.home / "bad-logits"
        bad = [good[:-1], good + b"x", good[:19], b"", b"GGUF" + good[4:]]
        for at, value in ((8, -1), (8, 1 << 30), (12, 1), (12, 1 << 30), (16, 0), (16, 1 << 30), (20, -1), (20, saved["vocab"])):
            bad.append(good[:at] + struct.pack("<i", value) + good[at + 4:])
        for data in bad:
            file.write_bytes(data)
            run = subprocess.run([program(), "perplexity", GOLDEN / saved["model"], "--against-logits", file], capture_output=True, text=True)
            self.assertEqual((2, ""), (run.returncode, run.stdout), run.stderr)
            self.assertIn("bad-logits", run.stderr)

    def test_every_run_gives_the_same_figures(self):
        """whatever the threads, the steps and the blocks"""
        model = GOLDEN / "quant" / "Q4_K.gguf"
        wanted = self.measure(model, "--against-compute", "exact", "--context", 128)
        self.assertGreater(wanted["against"]["kl"]["mean"], 0)
        for arguments in (("--threads", 2), ("--threads", 3, "--max-num-batched-tokens", 17), ("--block-size", 7)):
            self.assertEqual(wanted, self.measure(model, "--against-compute", "exact", "--context", 128, *arguments), arguments)
        alone = self.measure(model, "--context", 128)
        self.assertEqual(wanted["perplexity"], alone["perplexity"])

    def test_a_file_beside_itself(self):
        got = self.measure(GOLDEN / "llama", "--against", GOLDEN / "gguf" / "llama.gguf", "--context", 64)["against"]
        self.assertLess(got["kl"]["max"], 1e-6)  # rows of Q and K lie in another order
        self.assertEqual((1, 0), (got["same_best"]["mean"], got["same_best"]["error"]))

    def test_only_so_many_chunks(self):
        model = GOLDEN / "llama"
        self.assertEqual(2 * 31, self.measure(model, "--context", 64, "--chunks", 2)["tokens"])
        self.assertEqual(63 + 24, self.measure(model, "--context", 64, "--chunks", 2, "--stride", 24)["tokens"])

    def test_in_words(self):
        run = self.run_weir(GOLDEN / "llama", "--context", 64, "--against", GOLDEN / "qwen3")
        self.assertEqual(0, run.returncode, run.stderr)
        for word in ("perplexity     1013.018", "KL divergence", "same best", "589 scored, in 19 chunks of 64"):
            self.assertIn(word, run.stdout)

    def test_what_cannot_be_compared(self):
        other = self.home / "other"
        shutil.copytree(GOLDEN / "llama", other)
        tokenizer = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
        tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:4]
        (other / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
        run = self.run_weir(GOLDEN / "llama", "--against", other, "--context", 64)
        self.assertEqual(2, run.returncode)
        self.assertIn("different tokens, from token", run.stderr)

    def test_bad_arguments(self):
        short = self.home / "short"
        short.write_text("the quick brown fox")
        for arguments, text, word in (
            (("--context", 64), short, "64 needs at least as many"),
            (("--context", 64), self.home / "missing", "cannot be read"),
            (("--context", 100_000), self.text, "--context 100000"),
            (("--context", 2), self.text, "--context"),
            (("--context", 64, "--stride", 65), self.text, "--stride"),
            (("--against", "/no/such", "--context", 64), self.text, "/no/such"),
            (("--against-logits", short, "--against-compute", "exact"), self.text, "--against"),
        ):
            run = self.run_weir(GOLDEN / "llama", *arguments, text=text)
            self.assertEqual((2, ""), (run.returncode, run.stdout), run.stderr)
            self.assertIn(word, run.stderr)
        run = subprocess.run([program(), "perplexity", GOLDEN / "llama"], capture_output=True, text=True)
        self.assertEqual(2, run.returncode)
        self.assertIn("--text", run.stderr)

    def test_a_broken_model_ends_both(self):
        broken = self.home / "broken"
        shutil.copytree(GOLDEN / "llama", broken)
        path = broken / "model.safetensors"
        data = bytearray(path.read_bytes())
        header = struct.unpack("<Q", data[:8])[0]
        at = 8 + header + json.loads(data[8:8 + header])["model.norm.weight"]["data_offsets"][0]
        data[at:at + 4] = struct.pack("<f", float("nan"))
        path.write_bytes(data)
        for pair in ((broken, GOLDEN / "llama"), (GOLDEN / "llama", broken), (broken, broken)):
            run = self.run_weir(pair[0], "--against", pair[1], "--context", 64)
            self.assertEqual((1, ""), (run.returncode, run.stdout))
            self.assertIn("hold a NaN", run.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
