#!/usr/bin/env python3
"""Greedy text of real models is what llama.cpp writes (tests/golden/greedy, made by tools/record_greedy.py).

With 8-bit activations both programs' logprobs lie some 0.1 from what 32-bit arithmetic gives, and up to NEAR. So where the recorded best two
tokens are closer than that either may come, and a text is compared up to there."""
import json
import sys
import unittest

from weir_server import ROOT, Server, fetched, smollm2

NEAR = 0.6


class Greedy(unittest.TestCase):
    def hold(self, model, name):
        records = json.loads((ROOT / "tests" / "golden" / "greedy" / f"{name}.json").read_text(encoding="utf-8"))
        same = equal_texts = 0
        with Server(model, "--max-model-len", 1024) as server:
            for record in records:
                fields = dict(max_tokens=len(record["ids"]), temperature=0, ignore_eos=True, return_token_ids=True)
                ids = server.complete(record["prompt_ids"], **fields)["choices"][0]["token_ids"]
                parted = next((i for i, (a, b) in enumerate(zip(ids, record["ids"], strict=True)) if a != b), None)
                if parted is None:
                    same, equal_texts = same + len(ids), equal_texts + 1
                    continue
                same += parted
                gap = record["gaps"][parted]
                print(f"{name}, {record['prompt'][:30]!r}: another token at step {parted}, where the best two are {gap} apart")
                self.assertLess(gap, NEAR, record["prompt"])
        total = sum(len(r["ids"]) for r in records)
        print(f"{name}: {equal_texts} of {len(records)} texts equal, {same} of {total} tokens before the first difference")
        self.assertGreater(same, total // 4)

    def test_smollm2(self):
        self.hold(smollm2(), "smollm2")


class WithGemma(Greedy):
    """for machines that have the file: scripts/test fetches it for the conformance checks only"""

    def test_gemma3(self):
        self.hold(fetched("gemma-3-270m-q4_k_m.gguf"), "gemma3")


if __name__ == "__main__":
    sys.exit(unittest.main())
