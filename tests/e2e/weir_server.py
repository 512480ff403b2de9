"""What the end-to-end tests share: the program under test, a server on 127.0.0.1, JSON and event streams over HTTP.

ctest tells where things are through the environment: WEIR (the program), WEIR_MODELS_DIR (fetched models).
A server must end with status 0 on SIGTERM; the sanitizers' own statuses are caught that way.
"""
import ctypes
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "models"
HOST = "127.0.0.1"
# Under ThreadSanitizer everything takes some ten times as long, on machines with two cores beside other tests.
PATIENCE_S = 300


def program():
    path = os.environ.get("WEIR")
    if not path or not os.access(path, os.X_OK):
        raise SystemExit(f"WEIR={path!r} is no program: run these tests through ctest, or set WEIR to a built weir")
    return path


def fetched(name):
    """A model that scripts/test fetched."""
    path = pathlib.Path(os.environ.get("WEIR_MODELS_DIR", ROOT / "build" / "models")) / name
    if not path.exists():
        raise SystemExit(f"{path} is missing: scripts/test fetches it")
    return path


def smollm2():
    return fetched("SmolLM2-135M-Instruct.Q4_1.gguf")


def free_port():
    with socket.socket() as s:
        s.bind((HOST, 0))
        return s.getsockname()[1]


def written(log):
    """What stands in the file so far, without moving the place where its writer goes on."""
    return os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0).decode("utf-8", "replace")


def announced_port(log):
    """The port that a server says it is ready at. With --port 0 it chooses one that nobody else can take before it does."""
    ready = re.search(r" ready +http://[^/ ]+:(\d+)", written(log))
    return int(ready[1]) if ready else None


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Reply:
    def __init__(self, response):
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.text = response.read().decode("utf-8")

    @property
    def json(self):
        return json.loads(self.text)


class Server:
    """`with Server(model, "--block-size", 1) as server:`; leaving the block stops it and checks that it ended well."""

    def __init__(self, model, *arguments, env=None, key=None):
        self.port = None
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        arguments += ("--api-key", key) if key else ()
        self.log = tempfile.TemporaryFile()
        command = [program(), "serve", str(model), "--host", HOST, "--port", "0", *map(str, arguments)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, **(env or {})),
            preexec_fn=end_with_parent,
        )
        self.command = " ".join(command[1:])
        self.asked_to_end, self.said = False, ""

    def __enter__(self):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if self.process.poll() is not None:
                raise AssertionError(f"weir {self.command}\nended with {self.process.returncode}:\n{self.output()}")
            self.port = announced_port(self.log)
            try:
                if self.port and self.get("/health").status == 200:
                    return self
            except OSError:
                pass
            if time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"weir {self.command}\nnot ready after {PATIENCE_S} s:\n{self.output()}")
            time.sleep(0.05)

    def __exit__(self, kind, error, trace):
        status = self.stop()
        if status != 0:
            print(f"weir {self.command}\nended with {status}:\n{self.output()}", flush=True)
            if error is None:
                raise AssertionError(f"the server ended with status {status}, not 0")

    def stop(self):
        if self.process.poll() is None:
            self.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.output()
        self.log.close()
        return self.process.returncode

    def terminate(self):
        """SIGTERM, but never a second one: that ends the server at once, with status 1."""
        if not self.asked_to_end:
            self.asked_to_end = True
            self.process.send_signal(signal.SIGTERM)

    def output(self):
        if not self.log.closed:
            self.said = written(self.log)
        return self.said[-20000:]

    # ---------------------------------------------------------------------------------------- HTTP
    def request(self, method, path, body=None, headers=None):
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        headers = self.headers if headers is None else headers
        if data is not None:
            headers = dict(headers, **{"Content-Type": "application/json"})
        connection = http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, data, headers)
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body, **options):
        return self.request("POST", path, body, **options)

    def ok(self, path, **body):
        reply = self.post(path, body)
        if reply.status != 200:
            raise AssertionError(f"{path} answered {reply.status}: {reply.text[:500]}")
        return reply.json

    def complete(self, prompt, **fields):
        return self.ok("/v1/completions", model=self.model(), prompt=prompt, **fields)

    def chat(self, text, **fields):
        return self.ok("/v1/chat/completions", model=self.model(), messages=[{"role": "user", "content": text}], **fields)

    def model(self):
        return self.get("/v1/models").json["data"][0]["id"]

    def stream(self, path, **body):
        return EventStream(self.port, path, dict(body, stream=True))

    def metric(self, name):
        """the sum over all labels, 0 where it is absent"""
        total = 0.0
        for line in self.get("/metrics").text.splitlines():
            key, _, value = line.rpartition(" ")
            if key.split("{")[0] == "weir:" + name:
                total += float(value)
        return total

    def wait_idle(self, seconds=PATIENCE_S):
        """True once nothing runs, waits or holds KV blocks."""
        deadline = time.monotonic() + seconds
        gauges = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
        while any(self.metric(g) for g in gauges):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def memory_peak(self):
        """bytes the process held at most, resident"""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.M)[1]) * 1024


class EventStream:
    """Server-sent events as they come; `done` once [DONE] came."""

    def __init__(self, port, path, body):
        self.connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
        self.connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        self.response = self.connection.getresponse()
        self.done = False
        if self.response.status != 200:
            raise AssertionError(f"{path} answered {self.response.status}: {self.response.read()[:500]!r}")

    def __iter__(self):
        for line in self.response:
            if line.startswith(b"data: "):
                data = line[6:].strip().decode("utf-8")
                if data == "[DONE]":
                    self.done = True
                else:
                    yield json.loads(data)

    def close(self):
        self.response.close()
        self.connection.close()

    def rest(self):
        """the remaining events; the connection is closed after them"""
        events = list(self)
        self.close()
        return events


def at_once(calls):
    """Runs the calls in threads of their own; their results in order. The first exception is raised."""
    results = [None] * len(calls)

    def run(i):
        try:
            results[i] = calls[i]()
        except BaseException as e:  # passed on below
            results[i] = e

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r in results:
        if isinstance(r, BaseException):
            raise r
    return results
