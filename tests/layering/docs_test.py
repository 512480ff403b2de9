#!/usr/bin/env python3
"""Every file or folder of this repository that a document names exists.

A name is a link target, or something in backticks that begins with a folder or file at the root of the repository.
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
TOP_FOLDERS = "src|apps|tests|bench|tools|docs|scripts|cmake|\\.ci"
QUOTED = re.compile(rf"`((?:{TOP_FOLDERS})/[\w./*{{}},-]*|[A-Z]+\.md|CMakeLists\.txt|CMakePresets\.json)`")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def documents():
    found = [ROOT / name for name in DOCUMENTS] + sorted(ROOT.glob("docs/**/*.md"))
    return found + sorted(ROOT.glob("src/**/README.md"))


def spelled_out(name):
    """src/kv/block_pool.{h,cpp} -> both names"""
    braces = re.search(r"\{([^}]*)\}", name)
    if not braces:
        return [name]
    return [n for part in braces[1].split(",") for n in spelled_out(name[: braces.start()] + part + name[braces.end():])]


class Documents(unittest.TestCase):
    def test_every_file_a_document_names_exists(self):
        missing, count = [], 0
        for document in documents():
            text = document.read_text(encoding="utf-8")
            # Fenced code shows commands, and paths of the reader's own.
            text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
            names = [(ROOT, n) for q in QUOTED.findall(text) for n in spelled_out(q)]
            names += [(document.parent, n) for n in LINK.findall(text) if "://" not in n]
            for base, name in names:
                count += 1
                if not name.startswith("build/") and not list(base.glob(name.rstrip("/"))):
                    missing.append(f"{document.relative_to(ROOT)} names {name}")
        self.assertFalse(missing, "\n  ".join(["these do not exist:"] + missing))
        self.assertGreater(count, 20, "the documents name hardly any file: is the pattern out of date?")

    def test_readme_has_exactly_two_set_up_commands(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        setup = re.search(r"^## Set-up\n(.*?)^## ", text, re.S | re.M)
        self.assertTrue(setup, "README.md has no section 'Set-up'")
        blocks = re.findall(r"^```\w*\n(.*?)^```", setup[1], re.S | re.M)
        commands = [line.split("#")[0].split()[0] for b in blocks for line in b.splitlines() if line.strip()]
        self.assertEqual(commands, ["scripts/quickstart", "scripts/test"])


if __name__ == "__main__":
    sys.exit(unittest.main())
