#!/usr/bin/env python3
"""Writes src/text/jinja/special_casing.inc: the characters whose upper or title case is more than one character."""


def literal(text):
    return 'U"' + "".join(f"\\U{ord(c):08X}" for c in text) + '"'


print("// Characters whose upper or title case is more than one character (Unicode SpecialCasing.txt): code point, upper, title.")
print("// Written by tools/gen_special_casing.py from Python 3.11 (Unicode 14).")
for code in range(0x110000):
    if 0xD800 <= code < 0xE000:
        continue
    c = chr(code)
    if len(c.upper()) > 1 or len(c.title()) > 1:
        print(f"{{0x{code:X}, {literal(c.upper())}, {literal(c.title())}}},")
