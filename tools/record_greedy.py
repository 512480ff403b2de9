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
PROMPTS = [
    "A weir is a low dam built across a river to",
    "The capital of France is",
    "Once upon a time, in a small village by the sea, there lived",
    "def fibonacci(n):\n    ",
    "The three primary colours are",
    "Water boils at 100 degrees Celsius because",
    "Q: What is the largest planet in the solar system?\nA:",
    "1, 2, 3, 4, 5, 6, 7,",
    "Dear Sir or Madam,\n\nI am writing to",
    "Ein Fluss ist ein natürliches",
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
