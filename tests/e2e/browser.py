"""A headless Chromium steered through the DevTools protocol over its pipe (no port, no further library)."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

PATIENCE_S = 180


class Browser:
    """`with Browser() as page: page.open(address)`"""

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="weir-test-browser-")
        commands_out, self.commands = os.pipe()
        self.answers, answers_in = os.pipe()
        # The browser reads commands from descriptor 3 and writes answers to 4.
        script = (
            f'exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run '
            f'--window-size=1000,800 --remote-debugging-pipe --user-data-dir="{self.profile}" about:blank '
            f'3<&{commands_out} 4>&{answers_in}'
        )
        self.process = subprocess.Popen(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(commands_out, answers_in),
            start_new_session=True,
        )
        os.close(commands_out)
        os.close(answers_in)
        self.reader = os.fdopen(self.answers, "rb", buffering=0)
        self.number, self.session, self.rest = 0, None, b""
        self.watch = threading.Timer(PATIENCE_S, self.process.kill)
        self.watch.start()
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return self

    def __exit__(self, *_):
        self.watch.cancel()
        self.session = None
        try:
            self.send("Browser.close")
            self.process.wait(20)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.reader.close()
        os.close(self.commands)
        shutil.rmtree(self.profile, ignore_errors=True)

    def send(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self):
        while b"\0" not in self.rest:
            piece = self.reader.read(1 << 16)
            if not piece:
                raise EOFError("the browser ended")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, address):
        self.send("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script):
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, script, seconds=PATIENCE_S):
        deadline = time.monotonic() + seconds
        while True:
            value = self.evaluate(script)
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"never true: {script}; the page says: {self.evaluate('document.body.innerText')}")
            time.sleep(0.05)

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))
