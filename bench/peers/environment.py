"""What the set-up scripts of the peers share: a virtual environment, pinned downloads, and a note of what is already there."""
import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
DEFAULT_FOLDER = HERE.parents[1] / "build" / "peers"


def folder_argument(name, doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=DEFAULT_FOLDER / name)
    return parser.parse_args().folder.resolve()


def is_ready(folder, pin):
    """Whether the folder holds what `pin` describes, as mark_ready noted it."""
    note = folder / "ready.json"
    return note.exists() and json.loads(note.read_text()).get("pin") == pin


def mark_ready(folder, pin, **facts):
    (folder / "ready.json").write_text(json.dumps(dict(pin=pin, **facts), indent=1) + "\n")


def run(command, log, **kwargs):
    """Ends the script with the log's last line when the command fails."""
    with open(log, "ab") as out:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **kwargs).returncode
    if status != 0:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        sys.exit(f"{pathlib.Path(command[0]).name} failed ({status}), see {log}: {lines[-1] if lines else ''}")


def python_of(folder):
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
    return python


def pip(folder, *arguments):
    run([python_of(folder), "-m", "pip", "--disable-pip-version-check", *arguments], folder / "pip.log")


def download(folder, package, sha256, *options):
    """The file of one pinned package, checked; a file that is there and right is kept."""
    into = folder / "downloads"
    for path in into.glob("*"):
        if hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
            return path
    pip(folder, "download", "--no-deps", *options, "--dest", into, package)
    for path in into.glob("*"):
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found == sha256:
            return path
        print(f"{path.name} has SHA-256 {found}", file=sys.stderr)
    sys.exit(f"no file of {package} has the SHA-256 {sha256}")
