"""Writes rope_values.inc: rotary frequencies and angles from the formulas of the papers, vectorised over the pairs.

Run: python3 rope_values.py > rope_values.inc
"""
import math

import numpy as np

CASES = [
    dict(name="plain", dims=64, theta=10000.0),
    dict(name="partial", dims=20, theta=1e6),
    dict(name="linear", dims=32, theta=10000.0, scaling="Linear", factor=4.0),
    dict(name="llama3", dims=64, theta=500000.0, scaling="Llama3", factor=32.0, original=8192, low=1.0, high=4.0),
    dict(name="llama3_other", dims=128, theta=10000.0, scaling="Llama3", factor=8.0, original=1024, low=2.0, high=16.0),
    dict(name="yarn", dims=128, theta=1e6, scaling="Yarn", factor=4.0, original=32768),
    dict(name="yarn_exact_ends", dims=64, theta=150000.0, scaling="Yarn", factor=32.0, original=4096, truncate=False),
    dict(name="yarn_betas", dims=64, theta=10000.0, scaling="Yarn", factor=2.5, original=2048, fast=16.0, slow=2.0,
         attention=0.9),
    dict(name="yarn_no_ramp", dims=16, theta=10000.0, scaling="Yarn", factor=4.0, original=8, fast=32.0, slow=32.0),
    dict(name="divisors", dims=16, theta=500000.0, divisors=[1, 1, 1, 1.5, 2.25, 4, 8, 8]),
]
POSITIONS = [0, 1, 7, 1000, 131071]


def frequencies(c):
    dims, pairs = c["dims"], np.arange(c["dims"] // 2, dtype=np.float64)
    f = 1.0 / c["theta"] ** (2 * pairs / dims)
    factor, scaling, magnitude = c.get("factor", 1.0), c.get("scaling", "None"), 1.0
    if scaling == "Linear":
        f = f / factor
    if scaling == "Llama3":
        wavelength = 2 * np.pi / f
        smooth = (c["original"] / wavelength - c["low"]) / (c["high"] - c["low"])
        between = (1 - smooth) * f / factor + smooth * f
        f = np.where(wavelength > c["original"] / c["low"], f / factor,
                     np.where(wavelength < c["original"] / c["high"], f, between))
    if scaling == "Yarn":
        def dimension(turns):
            return dims * math.log(c["original"] / (turns * 2 * math.pi)) / (2 * math.log(c["theta"]))
        low, high = dimension(c.get("fast", 32.0)), dimension(c.get("slow", 1.0))
        if c.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dims - 1)
        if low == high:
            high += 0.001
        kept = 1 - np.clip((pairs - low) / (high - low), 0, 1)
        f = f / factor * (1 - kept) + f * kept
        magnitude = c.get("attention") or 0.1 * math.log(factor) + 1
    return f / np.array(c.get("divisors", np.ones(len(f)))), magnitude


def row(values):
    return "{" + ", ".join(repr(float(v)) for v in values) + "}"


print(f"// Made by rope_values.py with numpy {np.__version__}.")
for c in CASES:
    f, magnitude = frequencies(c)
    cos = [np.cos(p * f) * magnitude for p in POSITIONS]
    sin = [np.sin(p * f) * magnitude for p in POSITIONS]
    spec = [f".dims = {c['dims']}", f".theta = {c['theta']!r}", f".scaling = RopeSpec::Scaling::k{c.get('scaling', 'None')}",
            f".factor = {c.get('factor', 1.0)!r}", f".original_context = {c.get('original', 0)}",
            f".low_freq_factor = {c.get('low', 1.0)!r}", f".high_freq_factor = {c.get('high', 4.0)!r}",
            f".beta_fast = {c.get('fast', 32.0)!r}", f".beta_slow = {c.get('slow', 1.0)!r}",
            f".yarn_truncate = {str(c.get('truncate', True)).lower()}", f".attention_factor = {c.get('attention', 0.0)!r}",
            ".frequency_divisors = {" + ", ".join(f"{v}f" if isinstance(v, float) else f"{v}.0f" for v in c.get("divisors", [])) + "}"]
    print(f'{{"{c["name"]}",\n {{{", ".join(spec)}}},\n {magnitude!r},\n {row(f)},')
    print(" {" + ",\n  ".join(row(r) for r in cos) + "},")
    print(" {" + ",\n  ".join(row(r) for r in sin) + "}},")
