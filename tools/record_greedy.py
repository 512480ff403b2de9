#!/usr/bin/env python3
"""Records what llama.cpp's server continues prompts with, for tests/e2e/greedy_test.py.

    llama-server -m MODEL.gguf --port 8081 -np 1
    python tools/record_greedy.py http://127.0.0.1:8081 >tests/golden/greedy/NAME.json

For each prompt: its ids, the ids and text that follow greedily, and for each step the gap between the logprobs of the best two tokens:
where it is small, another program's rounding may choose differently. The committed files were made with llama.cpp as shipped in
llama-cpp-python 0.3.36, built natively on a CPU with AVX-512.
"""
import json
import sys
import urllib.request

STEPS = 48
# Texts that a small model continues with confidence: both programs multiply with 8-bit activations, each moving logprobs by about
# 0.09 on average against exact arithmetic, so that free text parts wherever two tokens are nearly as likely.
PROMPTS = [
    "1, 2, 3, 4, 5, 6, 7,",
    "10 9 8 7 6 5 4 3 2 1 10 9 8 7 6 5 4 3 2 1 10 9 8",
    "January, February, March, April, May, June, July, August, September, October, November, December, January, February,",
    "2 x 1 = 2\n2 x 2 = 4\n2 x 3 = 6\n2 x 4 = 8\n2 x 5 =",
    "Ein Fluss ist ein natürliches Gewässer. Ein Fluss ist ein natürliches Gewässer. Ein Fluss ist",
    "<ul>\n  <li>one</li>\n  <li>two</li>\n  <li>three</li>\n</ul>\n<ul>\n  <li>one</li>\n  <li>two</li>\n",
    "id,name,age\n1,Ann,30\n2,Bob,31\n3,Ann,32\n4,Bob,33\n5,Ann,34\n6,Bob,",
    "The weir holds the river. The miller opens the gate. The weir holds the river. The miller opens the gate. The weir",
    '{"a": 1, "b": 2}\n{"a": 1, "b": 2}\n{"a": 1, "b":',
    "def fibonacci(n):\n    if n <= 1:\n        return n\n    return fibonacci(n-1) + fibonacci(n-2)\n\ndef fibonacci(n):\n    if n <= 1:\n",
]


def call(address, path, **body):
    request = urllib.request.Request(address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def main():
    address, records = sys.argv[1], []
    for prompt in PROMPTS:
        ids = call(address, "/tokenize", content=prompt, add_special=True)["tokens"]
        reply = call(address, "/completion", prompt=ids, n_predict=STEPS, temperature=0, n_probs=2, cache_prompt=False, ignore_eos=True)
        steps = reply["completion_probabilities"]
        gaps = [round(s["top_logprobs"][0]["logprob"] - s["top_logprobs"][1]["logprob"], 4) for s in steps]
        records.append(
            {"prompt": prompt, "prompt_ids": ids, "ids": [s["id"] for s in steps], "text": reply["content"], "gaps": gaps}
        )
    json.dump(records, sys.stdout, ensure_ascii=False, indent=1)
    print()


if __name__ == "__main__":
    main()
