"""The report of bench/compare: JSON with every figure, a Markdown table, and the plots."""
import json
import os
import pathlib
import time

import svg_plot

TITLES = {"weir": "weir", "llama_cpp": "llama.cpp", "openvino": "OpenVINO", "vllm": "vLLM (BF16)"}
ISA_FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8")
PEAKS = {"read_gb_s": "GB/s read", "int8_gops": "int8 Gop/s", "bf16_gops": "BF16 Gop/s", "f32_gops": "F32 Gop/s"}


def machine():
    info = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    flags = info.get("flags", "").split()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return dict(
        cpu=info.get("model name", "unknown"), cores=len(os.sched_getaffinity(0)), isa=[flag for flag in ISA_FLAGS if flag in flags],
        memory_gib=round(pages / 2**30, 1), kernel=os.uname().release, virtual="hypervisor" in flags,
    )  # fmt: skip


def busy_cores(seconds=1.0):
    """How many cores other processes kept busy while this one slept, time stolen by the hypervisor included."""

    def ticks():
        values = [int(v) for v in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(values), values[3] + values[4]  # all; idle and waiting for disks

    (all_before, idle_before), _, (all_after, idle_after) = ticks(), time.sleep(seconds), ticks()
    busy = 1 - (idle_after - idle_before) / max(all_after - all_before, 1)
    return round(busy * os.cpu_count(), 2)


def write(folder, result):
    (folder / "compare.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "compare.md").write_text(markdown(result))
    (folder / "speed.svg").write_text(svg_plot.speed(result["figures"], TITLES))
    if result.get("kernels"):
        (folder / "kernels.svg").write_text(svg_plot.kernels(result["kernels"]))


def markdown(result):
    here = result["machine"]
    lines = [
        f"{here['cpu']}{' (virtual machine)' if here['virtual'] else ''}, {here['cores']} cores, {here['memory_gib']} GiB; "
        f"{', '.join(here['isa'])}. {result['threads']} threads, {result['rounds']} interleaved rounds, medians, tokens/s.",
        "",
        "Measured limits: " + ", ".join(f"{result['peaks'][key]:.0f} {unit}" for key, unit in PEAKS.items()) + ".",
        "",
        f"Other processes kept {min(result['other_load']):.1f} to {max(result['other_load']):.1f} cores busy before the rounds"
        + (": too much for these figures to be worth anything." if max(result["other_load"]) > 0.3 else "."),
        "",
    ]
    names = [program["name"] for program in result["programs"]]
    peers = [name for name in names if name != "weir" and any(name in row["programs"] for row in result["figures"])]
    header = ["model", "measure", "weir", "of the bound"] + [c for p in peers for c in (TITLES[p], f"weir / {TITLES[p]}")]
    lines += ["| " + " | ".join(header) + " |", "| --- | --- |" + " ---: |" * (len(header) - 2)]
    lines += ["| " + " | ".join(cells(row, peers)) + " |" for row in result["figures"]]
    lines += [""] + [f"- {TITLES[p['name']]}: {p['version']}{'; ' + p['how'] if p['how'] else ''}" for p in result["programs"]]
    used = [(TITLES[name], p["setting"]) for row in result["figures"] for name, p in row["programs"].items()]
    settings = sorted({f"{title} {setting}" for title, setting in used if setting != "default"})
    lines += [f"- settings that were fastest: {', '.join(settings)}"] if settings else []
    lines += [f"- skipped: {why}" for why in result["skipped"]]
    lines += ["", "In brackets: lowest and highest of the rounds.", "", "```", result["command"], "```"]
    return "\n".join(lines) + "\n"


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(program):
    return f"{number(program['median'])} ({number(min(program['tok_s']))}–{number(max(program['tok_s']))})"


def cells(row, peers):
    yield row["model"]
    yield row["measure"]
    yield spread(row["programs"]["weir"])
    yield f"{100 * row['share_of_bound']:.0f} %"
    for peer in peers:
        program = row["programs"].get(peer)
        yield spread(program) if program else "–"
        ratio = program.get("weir_is_faster_by") if program else None
        yield f"{ratio['median']:.2f}× ({ratio['low']:.2f}–{ratio['high']:.2f})" if ratio else "–"
