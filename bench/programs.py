"""The programs that are compared. Each runs one piece of work on one model and says how fast it was.

A program has a name, a version, prepare(), model_for(pair), settings(work) and run(model, work, setting); all but settings may raise
Unavailable.
Python peers keep their model loaded in a worker process, which sleeps while others run; the native programs start anew each time.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import typing

PEERS = pathlib.Path(__file__).resolve().parent / "peers"


class Unavailable(Exception):
    """Why a program, or a program on one model, is left out: one line."""


class Work(typing.NamedTuple):
    prompt: int
    output: int
    sequences: int

    @property
    def tokens(self):
        return self.sequences * (self.prompt + self.output)


class Pair(typing.NamedTuple):
    """One model: a GGUF file, a Hugging Face folder, or both."""

    gguf: pathlib.Path | None
    folder: pathlib.Path | None

    @property
    def own(self):
        return self.gguf or self.folder

    @property
    def name(self):
        return self.own.stem if self.gguf else self.own.name


def output_of(argv, timeout_s):
    try:
        done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{pathlib.Path(argv[0]).name} took longer than {timeout_s} s") from None
    except OSError as e:
        raise Unavailable(f"{argv[0]}: {e.strerror}") from None
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise Unavailable(f"{pathlib.Path(argv[0]).name} ended with {done.returncode}: {lines[-1].strip()[:200] if lines else 'no output'}")
    return done.stdout


class Program:
    def __init__(self, options):
        self.threads, self.timeout_s = options.threads, options.timeout
        self.version, self.how = "", ""

    def settings(self, work):
        """What is tried before the rounds; the fastest is then used in all of them."""
        return ["default"]

    def close(self):
        pass


class Weir(Program):
    name = "weir"

    def __init__(self, options):
        super().__init__(options)
        self.program = options.weir

    def prepare(self):
        self.version = output_of([self.program, "--version"], 60).strip().removeprefix("weir ")

    def model_for(self, pair):
        return pair.own

    def run(self, model, work, setting):
        argv = [self.program, "bench", "throughput", model, "--threads", self.threads, "--json", "--prompt-tokens", work.prompt]
        out = output_of(argv + ["--output-tokens", work.output, "--batch", work.sequences], self.timeout_s)
        figures = json.loads(out)
        return {"prefill": figures["prefill_tok_s"], "decode": figures["decode_tok_s"], "peak_rss_bytes": figures["peak_rss_bytes"]}


class Peer(Program):
    def __init__(self, options):
        super().__init__(options)
        self.folder = options.peers / self.name
        self.install = not options.no_install

    def prepare(self):
        """Runs the set-up script, which does nothing when the peer is there."""
        if self.install:
            try:
                command = [sys.executable, PEERS / self.name, self.folder]
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            except OSError as e:
                raise Unavailable(f"set-up: {e}") from None
            if done.returncode != 0:
                lines = [line for line in done.stderr.splitlines() if line.strip()]
                raise Unavailable(f"cannot be installed: {lines[-1][:300] if lines else 'the set-up script failed'}")
        note = self.folder / "ready.json"
        if not note.exists():
            raise Unavailable(f"not installed (bench/peers/{self.name} does it)")
        facts = json.loads(note.read_text())
        self.version, self.how = facts["version"], facts.get("how", "")


class LlamaCpp(Peer):
    name = "llama_cpp"

    def model_for(self, pair):
        if not pair.gguf:
            raise Unavailable("reads GGUF only; give GGUF=FOLDER")
        return pair.gguf

    def settings(self, work):
        return ["-fa on"] if work.tokens > 4096 and work.sequences == 1 else ["-fa on", "-fa off"]

    def run(self, model, work, setting):
        argv = [self.folder / "bin" / "llama-batched-bench", "-m", model, "-t", self.threads, "-tb", self.threads, *setting.split()]
        argv += ["-c", max(4096, 64 + work.tokens), "-b", 2048, "-ub", 512, "-npp", work.prompt, "-ntg", work.output]
        lines = output_of(argv + ["-npl", work.sequences, "--output-format", "jsonl"], self.timeout_s).splitlines()
        figures = [json.loads(line) for line in lines if line.startswith("{")]
        if not figures:
            raise Unavailable("llama-batched-bench printed no figures")
        return {"prefill": figures[-1]["speed_pp"], "decode": figures[-1]["speed_tg"]}


class WorkerPeer(Peer):
    """Starts a worker for the model in hand and ends it when another model comes."""

    def __init__(self, options):
        super().__init__(options)
        self.works = options.works
        self.worker, self.model = None, None

    def run(self, model, work, setting):
        if self.model != model:
            self.close()
            self.start(model)
        return self.ask(json.dumps(work._asdict()))

    def start(self, model):
        self.log = open(self.folder / "worker.log", "ab")
        argv = [str(self.folder / "venv" / "bin" / "python"), str(PEERS / f"{self.name}_worker.py"), str(model), str(self.threads)]
        self.worker = subprocess.Popen(
            argv + [str(a) for a in self.arguments()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=os.environ | self.environment(),
        )  # fmt: skip
        self.model = model
        self.ask(None)

    def ask(self, line):
        alarm = threading.Timer(self.timeout_s, self.worker.kill)
        alarm.start()
        try:
            if line:
                self.worker.stdin.write(line + "\n")
                self.worker.stdin.flush()
            reply = self.worker.stdout.readline()
        except OSError:
            reply = ""
        finally:
            alarm.cancel()
        if not reply:
            self.close()
            raise Unavailable(f"its worker died or took longer than {self.timeout_s} s, see {self.folder / 'worker.log'}")
        figures = json.loads(reply)
        if "error" in figures:
            raise Unavailable(figures["error"])
        return figures

    def environment(self):
        return {}

    def close(self):
        if self.worker:
            with contextlib.suppress(OSError):  # what it did not read any more, when it died
                self.worker.stdin.close()
            try:
                self.worker.wait(30)
            except subprocess.TimeoutExpired:
                self.worker.kill()
                self.worker.wait()
            self.worker.stdout.close()
            self.log.close()
        self.worker, self.model = None, None


class OpenVino(WorkerPeer):
    name = "openvino"

    def model_for(self, pair):
        if not pair.gguf:
            raise Unavailable("is given GGUF files here; give GGUF=FOLDER")
        return pair.gguf

    def arguments(self):
        return [max(work.tokens for work in self.works)]


class Vllm(WorkerPeer):
    name = "vllm"

    def model_for(self, pair):
        if not pair.folder:
            raise Unavailable("reads no GGUF; give the same weights in BF16 as GGUF=FOLDER")
        return pair.folder

    def arguments(self):
        return [max(work.prompt + work.output for work in self.works), max(work.tokens for work in self.works)]

    def environment(self):
        """The libraries that its manual asks to preload, where they are."""
        found = [*self.folder.glob("venv/lib/libiomp5.so"), *self.folder.glob("tcmalloc/usr/lib/*/libtcmalloc_minimal.so.4")]
        return {"LD_PRELOAD": ":".join(map(str, found))} if found else {}


PEER_CLASSES = {peer.name: peer for peer in (LlamaCpp, OpenVino, Vllm)}
