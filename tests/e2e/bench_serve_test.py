#!/usr/bin/env python3
"""`weir bench serve` against a server of this program: figures that add up, the server's step log, and what bad input gets."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from weir_server import GOLDEN, Server, free_port, program

MODEL = GOLDEN / "llama"
LOAD = ("--num-prompts", 12, "--input-len", "uniform:4:12", "--output-len", 6, "--token-ids", "4:200", "--seed", 7)


def bench(*arguments):
    command = [program(), "bench", "serve", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


class BenchServe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.steps = os.path.join(cls.folder.name, "steps.jsonl")
        cls.server = Server(MODEL, "--step-log", cls.steps)
        cls.server.__enter__()
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        with open(cls.steps, encoding="ascii") as file:
            steps = [json.loads(line) for line in file]
        sampled = sum(r[3] for s in steps for r in s["ranges"])
        rows = sum(r[2] - r[1] for s in steps for r in s["ranges"])
        assert sampled > 60 and rows > sampled, (sampled, rows)
        assert all(s["produced_s"] >= s["planned_s"] for s in steps)
        cls.folder.cleanup()

    def test_figures_of_an_open_loop_add_up(self):
        records = os.path.join(self.folder.name, "records.jsonl")
        done = bench("--base-url", self.url, "--arrivals", "poisson:50", *LOAD, "--json", "--output", records,
                     "--goodput", "ttft:60000", "tpot:60000")
        self.assertEqual(0, done.returncode, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual((12, 0, 72, 72), tuple(found[k] for k in ("completed", "failed", "output_tokens", "asked_output_tokens")))
        self.assertEqual({"usage": 12}, found["counted_by"])
        self.assertAlmostEqual(found["output_throughput"], 72 / found["duration_s"], 3)
        self.assertAlmostEqual(found["request_goodput"], found["request_throughput"], 6)
        self.assertIn("p99", found["ttft_ms"]["too_few_samples_for"])
        with open(records, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(list(range(12)), [r["index"] for r in lines])
        for r in lines:
            self.assertLessEqual(r["scheduled_s"], r["sent_s"])
            self.assertLessEqual(r["sent_s"], r["first_token_s"])
            self.assertLessEqual(r["first_token_s"], r["last_token_s"])
            self.assertEqual(6, sum(tokens for _, tokens in r["arrivals"]))
            self.assertAlmostEqual(r["ttft_ms"], 1e3 * (r["first_token_s"] - r["scheduled_s"]), 2)
            self.assertEqual(r["prompt_tokens"], r["asked_prompt_tokens"])
        self.assertAlmostEqual(found["ttft_ms"]["mean"], sum(r["ttft_ms"] for r in lines) / 12, 3)

    def test_shared_prefixes_are_found_in_the_cache(self):
        done = bench("--base-url", self.url, "--arrivals", "closed:1", "--num-prompts", 6, "--input-len", 5, "--output-len", 2,
                     "--token-ids", "4:200", "--prefix-groups", 1, "--prefix-len", 48, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(5 * 48, json.loads(done.stdout)["cached_tokens"])

    def test_every_arrival_process_and_plain_words_run(self):
        for arrivals in ("at-once", "constant:100", "gamma:100:2", "burst:100:4", "closed:3"):
            done = bench("--base-url", self.url, "--arrivals", arrivals, *LOAD)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertIn("completed   12", done.stdout)
            self.assertIn("lag p99", done.stdout)
        done = bench("--base-url", self.url, "--text", *LOAD, "--no-stream")
        self.assertEqual(0, done.returncode, done.stderr)

    def test_requests_that_the_server_refuses_are_named(self):
        done = bench("--base-url", self.url, "--input-len", 100000, "--token-ids", "4:200", "--output-len", 1, "--num-prompts", 2,
                     "--warm-up", 0)
        self.assertEqual(1, done.returncode)
        self.assertIn("HTTP 400", done.stdout)

    def test_bad_input_says_what_is_wrong(self):
        for arguments, word in (
            (("--base-url", f"http://127.0.0.1:{free_port()}"), "nothing answers"),
            (("--base-url", "https://x"), "https"),
            (("--base-url", self.url, "--arrivals", "poisson"), "--arrivals"),
            (("--base-url", self.url, "--input-len", "0"), "--input-len"),
            (("--base-url", self.url, "--goodput", "ttft"), "--goodput"),
            (("--base-url", self.url, "--token-ids", "9:9"), "--token-ids"),
            (("--base-url", self.url, "--arrivals", "trace"), "--trace"),
            (("--base-url", self.url, "--trace", "/nowhere"), "/nowhere"),
        ):
            done = bench(*arguments)
            self.assertIn(done.returncode, (1, 2), arguments)
            self.assertIn(word, done.stderr, arguments)
            self.assertEqual("", done.stdout, arguments)

    def test_a_calibration_is_what_the_simulator_reads(self):
        model = os.path.join(self.folder.name, "step.json")
        command = [program(), "plan", "calibrate", str(MODEL), "--seconds", "2", "--out", model, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertGreater(json.loads(done.stdout)["fit"]["steps"], 100)
        command = [program(), "plan", "sim", "--step-model", model, "--num-kv-blocks", "64", "--arrivals", "poisson:50",
                   "--requests", "20", "--prompt", "16", "--output", "4", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(0, done.returncode, done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
