#!/usr/bin/env python3
"""Records what huggingface_hub leaves in its cache when it downloads a repository: tests/golden/hub/layout.json, which
tests/e2e/pull_test.py holds `weir pull` to. Made with huggingface_hub 2.4.0 (without hf_xet), from a Hub on this machine.

    tools/gen_hub_layout.py              # needs huggingface_hub
    tools/gen_hub_layout.py --weir PATH  # also lets huggingface_hub look for what that program pulled
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from fake_hub import FakeHub  # noqa: E402
from pull_test import LAYOUT, tree  # noqa: E402

REPOSITORY = dict(
    name="Some-Owner/some.model_1",
    revision="refs/pr/1",
    files={"config.json": b"{}", "tokenizer.json": b'{"a": 1}', "additional_chat_templates/tool_use.jinja": b"{{ x }}"},
    lfs={"model.safetensors": bytes(range(256))},
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path)
    options = parser.parse_args()
    with FakeHub() as hub, tempfile.TemporaryDirectory() as scratch:
        os.environ.update(HF_ENDPOINT=hub.endpoint, HF_HOME=scratch, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1")
        import huggingface_hub

        name, revision = REPOSITORY["name"], REPOSITORY["revision"]
        hub.add(name, REPOSITORY["files"], REPOSITORY["lfs"], revision=revision)
        theirs = pathlib.Path(scratch) / "hub"
        for file in REPOSITORY["files"] | REPOSITORY["lfs"]:
            huggingface_hub.hf_hub_download(name, file, revision=revision, cache_dir=theirs)
        found = tree(theirs)
        locks = sorted(path for path in found if path.startswith(".locks/"))
        tag = (theirs / "CACHEDIR.TAG").read_text().splitlines()[0]
        kept = {path: what for path, what in found.items() if path not in locks and path != "CACHEDIR.TAG"}
        hexed = {kind: {n: data.hex() for n, data in REPOSITORY[kind].items()} for kind in ("files", "lfs")}
        record = dict(repository=dict(REPOSITORY, **hexed), locks=locks, tag=tag, tree=kept)
        LAYOUT.parent.mkdir(parents=True, exist_ok=True)
        LAYOUT.write_text(json.dumps(record, indent=1) + "\n")
        if options.weir:
            ours = pathlib.Path(scratch) / "ours"
            command = [options.weir, "pull", f"{name}@{revision}", "--cache-dir", ours]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
            folder = huggingface_hub.snapshot_download(name, revision=revision, cache_dir=ours, local_files_only=True)
            assert folder == printed, (folder, printed)
            for file in REPOSITORY["files"] | REPOSITORY["lfs"]:
                assert huggingface_hub.try_to_load_from_cache(name, file, cache_dir=ours, revision=revision), file
            scan = huggingface_hub.scan_cache_dir(ours)
            assert not scan.warnings and {r.repo_id for r in scan.repos} == {name}, scan
            print("huggingface_hub finds what weir pulled")


if __name__ == "__main__":
    main()
