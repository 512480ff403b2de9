"""The loop of a worker: a process that keeps one model of a Python peer loaded and measures what it is told to.

A worker reads one JSON object per line from standard input, {"prompt": tokens, "output": tokens, "sequences": n}, and answers each with one
line, {"prefill": tokens/s, "decode": tokens/s} or {"error": text}. Its first line is {"ready": version}. Whatever the libraries print goes
to standard error.
"""
import json
import os
import sys
import time


def measure(sequences, step, begin):
    """Steps until all are done. step() returns the number of new tokens by sequence and whether more is to come.

    The prompts are done when every sequence has its first token; what comes after that is decoding. weir counts the same way.
    """
    started, decoded, prefill_end, now, more = set(), 0, None, begin, True
    while more:
        new, more = step()
        now = time.perf_counter()
        if prefill_end:
            decoded += sum(new.values())
        started |= {sequence for sequence, tokens in new.items() if tokens}
        if not prefill_end and len(started) == sequences:
            prefill_end = now
    return prefill_end - begin, decoded / (now - prefill_end) if now > prefill_end else 0.0


def answer(out, reply):
    out.write(json.dumps(reply) + "\n")
    out.flush()


def serve(load):
    """load(out of argv) returns (version, run), where run(prompt, output, sequences) returns (seconds of prefill, decode tokens/s)."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        version, run = load()
    except Exception as e:  # whatever a library throws is the reason why this peer is left out
        answer(out, {"error": one_line(e)})
        return
    answer(out, {"ready": version})
    for line in sys.stdin:
        work = json.loads(line)
        try:
            prefill_s, decode = run(**work)
            answer(out, {"prefill": work["prompt"] * work["sequences"] / prefill_s, "decode": decode})
        except Exception as e:
            answer(out, {"error": one_line(e)})


def one_line(error):
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text}"[:300]
