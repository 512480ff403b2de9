#!/usr/bin/env python3
"""Holds the sources to the dependency direction of ARCHITECTURE.md.

  base < tensor < {load, backend, kv} < {model, quantise} < {sample, spec, sched} < engine < {parallel, disagg} < api < apps

A station may include what stands left of it and itself; `text`, `hub` and `traffic` need only base, `driver` traffic too, `plan` reads models and
drives the scheduler and the KV manager, and stations between the same braces do not know each other, except that spec judges drafts with
sample. Further: what a station includes, its CMakeLists.txt names as
a dependency; model/ sees only the seam of the backend; sched/ has no clock, thread, device or I/O of its own; and the
files compiled for one instruction set include no header of the C++ library, directly or through others, because an
inline function compiled with AVX-512 flags can be the copy the linker keeps.
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"

LEVELS = [
    ["base"],
    ["tensor"],
    ["load", "backend", "kv"],
    ["model", "quantise"],
    ["sample", "spec", "sched"],
    ["engine"],
    ["parallel", "disagg"],
    ["api"],
    ["apps"],
]
LEFT_OF = {name: {n for level in LEVELS[:i] for n in level} for i, names in enumerate(LEVELS) for name in names}
LEFT_OF["spec"] |= {"sample"}
LEFT_OF["text"] = LEFT_OF["hub"] = LEFT_OF["traffic"] = {"base"}
LEFT_OF["driver"] = {"base", "traffic"}
for right_of_text in ("api", "apps", "quantise"):
    LEFT_OF[right_of_text] |= {"text"}
LEFT_OF["apps"] |= {"hub", "plan", "driver", "traffic"}
LEFT_OF["plan"] = {"base", "tensor", "load", "kv", "sched", "traffic"}  # never the engine: it plans for any

# What a per-ISA file may include besides intrinsics: C headers and their C++ names that define no inline functions.
PLAIN = {"immintrin.h", "cstddef", "cstdint", "stddef.h", "stdint.h", "string.h", "cstring"}
PER_ISA = re.compile(r"_(avx2|avx2vnni|avx512|avx512vnni|amx)\.cpp$")
IMPURE = {
    "thread", "mutex", "shared_mutex", "condition_variable", "atomic", "future", "chrono", "ctime", "time.h", "random",
    "iostream", "fstream", "cstdio", "stdio.h", "filesystem", "unistd.h",
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.M)


def includes(path):
    """(project headers, system headers) of a file"""
    found = INCLUDE.findall(path.read_text(encoding="utf-8"))
    return [a for a, _ in found if a], [b for _, b in found if b]


def sources():
    for folder in (SRC, ROOT / "apps"):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".h", ".cpp", ".inc"):
                yield path


def station(path):
    """the folder that stands for a file's place in the order"""
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "src" else parts[0]


def declared_dependencies(name):
    text = (SRC / name / "CMakeLists.txt").read_text(encoding="utf-8")
    call = re.search(r"weir_library\((.*?)\)", text, re.S)
    words = call[1].split() if call else []
    after = words[words.index("DEPS") + 1:] if "DEPS" in words else []
    return set(after[: next((i for i, w in enumerate(after) if w.isupper()), len(after))])


class Layering(unittest.TestCase):
    def complain(self, problems):
        if problems:
            self.fail(f"{len(problems)} found\n  " + "\n  ".join(problems))

    def test_every_folder_has_its_place_in_the_order(self):
        self.complain([f"src/{p.name} is in no level" for p in SRC.iterdir() if p.is_dir() and p.name not in LEFT_OF])

    def test_no_station_includes_what_stands_right_of_it(self):
        problems = []
        for path in sources():
            own = station(path)
            for header in includes(path)[0]:
                other = header.split("/")[0]
                if other in LEFT_OF and other != own and other not in LEFT_OF[own]:
                    problems.append(f"{path.relative_to(ROOT)} includes {header}: {own} must not know {other}")
        self.complain(problems)

    def test_project_includes_start_at_the_root_and_exist(self):
        problems = []
        for path in sources():
            for header in includes(path)[0]:
                if not (SRC / header).exists() and not (ROOT / header).exists():
                    problems.append(f"{path.relative_to(ROOT)} includes {header}: there is no src/{header}")
        self.complain(problems)

    def test_what_is_included_is_a_declared_dependency(self):
        problems = []
        for folder in sorted(p for p in SRC.iterdir() if (p / "CMakeLists.txt").exists()):
            declared = declared_dependencies(folder.name)
            problems += [f"src/{folder.name}: depends on {d}" for d in declared - LEFT_OF.get(folder.name, set())]
            known, todo = set(), set(declared)
            while todo:
                name = todo.pop()
                known.add(name)
                todo |= declared_dependencies(name) - known
            used = {h.split("/")[0] for p in sources() if station(p) == folder.name for h in includes(p)[0]}
            for name in sorted(used & set(LEFT_OF) - known - {folder.name}):
                problems.append(f"src/{folder.name} includes {name}/ but its CMakeLists.txt does not name it in DEPS")
        self.complain(problems)

    def test_model_names_no_backend(self):
        problems = []
        for path in sources():
            if station(path) == "model" and not path.stem.endswith("_test"):
                for header in includes(path)[0]:
                    if header.startswith("backend/") and header != "backend/backend.h":
                        problems.append(f"{path.relative_to(ROOT)} includes {header}")
        self.complain(problems)

    def test_the_scheduler_is_pure(self):
        problems = []
        for path in sources():
            if station(path) == "sched" and not path.stem.endswith(("_test", "_bench")):
                bad = IMPURE.intersection(includes(path)[1])
                bad |= {h for h in includes(path)[0] if h.startswith("base/") and re.search("clock|thread|mailbox", h)}
                problems += [f"{path.relative_to(ROOT)} includes {h}" for h in sorted(bad)]
        self.complain(problems)

    def test_files_for_one_instruction_set_include_no_standard_library(self):
        problems = []
        kernels = [p for p in sources() if PER_ISA.search(p.name)]
        for kernel in kernels:
            seen, todo = set(), [(kernel, "")]
            while todo:
                path, through = todo.pop()
                if path in seen:
                    continue
                seen.add(path)
                project, system = includes(path)
                problems += [
                    f"{kernel.relative_to(ROOT)} includes <{h}>{through}" for h in system if h not in PLAIN
                ]
                todo += [(SRC / h, f" through {h}") for h in project if (SRC / h).exists()]
        self.complain(sorted(set(problems)))
        self.assertTrue(kernels, "no file for one instruction set was found: is the name pattern out of date?")


if __name__ == "__main__":
    sys.exit(unittest.main())
