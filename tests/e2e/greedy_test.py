#!/usr/bin/env python3
"""Greedy text of real models is what llama.cpp writes (tests/golden/greedy, made by tools/record_greedy.py).

Where the recorded best two tokens lie closer than NEAR either may come and the rest of that text is not compared; everywhere else the
tokens must be equal."""
import json
import sys
import unittest

from weir_server import ROOT, Server, fetched, smollm2

NEAR = 0.02  # of a logprob


class Greedy(unittest.TestCase):
    def hold(self, model, name):
        records = json.loads((ROOT / "tests" / "golden" / "greedy" / f"{name}.json").read_text(encoding="utf-8"))
        self.assertGreaterEqual(len(records), 10)
        with Server(model, "--max-model-len", 1024) as server:
            for record in records:
                fields = dict(max_tokens=len(record["ids"]), temperature=0, ignore_eos=True, return_token_ids=True)
                ids = server.complete(record["prompt_ids"], **fields)["choices"][0]["token_ids"]
                parted = next((i for i, (a, b) in enumerate(zip(ids, record["ids"], strict=True)) if a != b), None)
                if parted is not None:
                    self.assertLess(record["gaps"][parted], NEAR, f"{record['prompt'][:30]!r}, step {parted}")

    def test_smollm2(self):
        self.hold(smollm2(), "smollm2")


class WithGemma(Greedy):
    """for machines that have the file: scripts/test fetches it for the conformance checks only"""

    def test_gemma3(self):
        self.hold(fetched("gemma-3-270m-q4_k_m.gguf"), "gemma3")


if __name__ == "__main__":
    sys.exit(unittest.main())
