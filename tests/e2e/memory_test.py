#!/usr/bin/env python3
"""Serving takes at most the model file, the KV pool and 15 % on top, counted as resident memory at its peak; a request that is
refused takes little more than its body."""
import sys
import unittest

from weir_server import GOLDEN, Server, at_once, smollm2

POOL = 256 << 20


class Memory(unittest.TestCase):
    def test_peak_is_within_file_pool_and_15_percent(self):
        text = "The miller watched the river rise and wrote the level into his book every evening. " * 60
        with Server(smollm2(), "--kv-cache-memory", POOL, "--max-model-len", 2048) as server:
            calls = [lambda i=i: server.complete(f"{i}. {text}", max_tokens=32, ignore_eos=True) for i in range(16)]
            at_once(calls)
            peak = server.memory_peak()
        allowed = 1.15 * (smollm2().stat().st_size + POOL)
        print(f"peak {peak / 2**20:.0f} MiB of {allowed / 2**20:.0f} MiB")
        self.assertLessEqual(peak, allowed)

    def test_a_huge_list_of_ids_is_refused_before_it_takes_memory(self):
        body = b'{"prompt":[' + b"1," * (12 << 20) + b"1]}"
        with Server(GOLDEN / "llama") as server:
            before = server.memory_peak()
            replies = at_once([lambda: server.post("/v1/completions", body)] * 2)
            taken = server.memory_peak() - before
        self.assertEqual([400, 400], [r.status for r in replies], replies[0].text[:300])
        self.assertIn("context_length_exceeded", replies[0].text)
        self.assertLess(taken, 6 * len(body))


if __name__ == "__main__":
    sys.exit(unittest.main())
