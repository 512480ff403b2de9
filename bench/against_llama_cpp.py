#!/usr/bin/env python3
"""weir and llama.cpp side by side: prefill and decode of the same model with the same threads, in turns, medians and ratios.

    bench/against_llama_cpp.py --llama-bin FOLDER --weir build/release/weir [--rounds 5] [--threads 2] MODEL.gguf ...

FOLDER holds llama-bench and llama-batched-bench, built with native flags. Measured: prefill of 512 tokens, decode of one sequence (64
tokens), decode of 16 sequences (32 tokens each after 64 of prompt; llama-batched-bench's S_TG, weir's decode_tok_s, which counts the
same way). Both programs run one after the other in every round, so that a slow minute of the machine hits both. Prints a Markdown table;
--json FILE also writes every single figure.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

MEASURES = ["prefill 512", "decode 1", "decode 16"]


def output(argv):
    return subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def llama(folder, model, threads):
    rows = json.loads(output([folder / "llama-bench", "-m", model, "-t", str(threads), "-p", "512", "-n", "64", "-r", "1", "-o", "json"]))
    speed = {"prefill 512" if row["n_prompt"] else "decode 1": row["avg_ts"] for row in rows}
    batched = [folder / "llama-batched-bench", "-m", model, "-t", str(threads), "-tb", str(threads), "-c", "4096", "-b", "2048"]
    batched += ["-ub", "512", "-npp", "64", "-ntg", "32", "-npl", "16", "--output-format", "jsonl"]
    lines = [json.loads(line) for line in output(batched).splitlines() if line.startswith("{")]
    return speed | {"decode 16": lines[-1]["speed_tg"]}


def weir(program, model, threads):
    def run(prompt, reply, batch):
        argv = [program, "bench", "throughput", model, "--threads", str(threads), "--json"]
        argv += ["--prompt-tokens", str(prompt), "--output-tokens", str(reply), "--batch", str(batch)]
        return json.loads(output(argv))

    one, many = run(512, 64, 1), run(64, 32, 16)
    return {"prefill 512": one["prefill_tok_s"], "decode 1": one["decode_tok_s"], "decode 16": many["decode_tok_s"]}


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--llama-bin", type=pathlib.Path, required=True)
    parser.add_argument("--weir", default="build/release/weir")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    figures = []
    print(f"{cpu_name()}, {args.threads} threads, median of {args.rounds} rounds, tokens/s\n")
    print("| model | measure | weir | llama.cpp | ratio |\n| --- | --- | ---: | ---: | ---: |")
    for model in args.models:
        rounds = [(weir(args.weir, model, args.threads), llama(args.llama_bin, model, args.threads)) for _ in range(args.rounds)]
        for measure in MEASURES:
            ours, theirs = ([pair[i][measure] for pair in rounds] for i in (0, 1))
            a, b = statistics.median(ours), statistics.median(theirs)
            figures.append(dict(model=pathlib.Path(model).name, measure=measure, weir=ours, llama_cpp=theirs, ratio=a / b))
            print(f"| {pathlib.Path(model).stem} | {measure} | {a:.1f} | {b:.1f} | {a / b:.2f} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps(dict(cpu=cpu_name(), threads=args.threads, figures=figures), indent=1) + "\n")


if __name__ == "__main__":
    main()
