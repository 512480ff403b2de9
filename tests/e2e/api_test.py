#!/usr/bin/env python3
"""The server as a client, an operator and an enemy meet it, on a tiny model: nothing here depends on what a model knows."""
import http.client
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import pathlib
import time
import unittest

import openai

from weir_server import GOLDEN, HOST, PATIENCE_S, Server, at_once, program

LLAMA = GOLDEN / "llama"
GGUF = GOLDEN / "gguf" / "llama.gguf"
FOREVER = dict(max_tokens=400, ignore_eos=True, temperature=0)


class Reasoning(unittest.TestCase):
    def test_a_prompt_that_opens_the_reasoning_gets_reasoning(self):
        template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}"
        fields = dict(messages=[{"role": "user", "content": "the quick"}], max_tokens=20, ignore_eos=True, temperature=0)
        said = {}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "thinking.jinja"
            path.write_text(template, encoding="utf-8")
            for parser in ("auto", "none"):
                with Server(LLAMA, "--chat-template", path, "--reasoning-parser", parser) as server:
                    said[parser] = server.ok("/v1/chat/completions", model=server.model(), **fields)["choices"][0]["message"]
                    events = server.stream("/v1/chat/completions", model=server.model(), **fields).rest()
                    deltas = [c["delta"] for e in events for c in e["choices"]]
                    for name in ("content", "reasoning_content"):
                        self.assertEqual(said[parser].get(name) or "", "".join(d.get(name) or "" for d in deltas))
        self.assertIsNone(said["auto"]["content"])
        self.assertNotIn("reasoning_content", said["none"])
        self.assertEqual(said["none"]["content"].lstrip(" \n\t\r"), said["auto"]["reasoning_content"])

    def test_an_unknown_parser_is_refused_with_those_that_are_known(self):
        for flag, known in (("--reasoning-parser", "deepseek_r1"), ("--tool-call-parser", "hermes")):
            done = subprocess.run([program(), "serve", LLAMA, "--port", "0", flag, "none-such"], capture_output=True, text=True)
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn("none-such", done.stderr)
            self.assertIn(known, done.stderr)


class Surface(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(LLAMA, "--max-num-seqs", 8)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def refused(self, status, path, body, *words):
        reply = self.server.post(path, body)
        self.assertEqual(status, reply.status, reply.text)
        error = reply.json["error"]
        self.assertIsInstance(error["type"], str)
        for key in ("param", "code"):
            self.assertIn(key, error)
        for word in words:
            self.assertIn(str(word), error["message"])
        return error

    def test_models_health_and_metrics(self):
        listing = self.server.get("/v1/models").json
        self.assertEqual(("list", "model"), (listing["object"], listing["data"][0]["object"]))
        before = self.server.metric("generation_tokens_total"), self.server.metric("prompt_tokens_total")
        usage = self.server.complete([5, 6, 7], max_tokens=4, ignore_eos=True)["usage"]
        self.assertEqual((3, 4, 7), (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]))
        self.assertTrue(self.server.wait_idle())
        self.assertEqual(before[0] + 4, self.server.metric("generation_tokens_total"))
        self.assertEqual(before[1] + 3, self.server.metric("prompt_tokens_total"))

    def test_text_survives_tokenize_and_detokenize(self):
        for text in ("the quick brown fox", "  two  spaces\n\ttab", "naïve café, 你好, 😀", "<|im_end|>"):
            ids = self.server.ok("/tokenize", model=self.server.model(), prompt=text, add_special_tokens=False)["tokens"]
            self.assertEqual(text, self.server.ok("/detokenize", model=self.server.model(), tokens=ids)["prompt"])

    def test_stream_and_whole_reply_are_equal(self):
        fields = dict(model=self.server.model(), prompt="the quick", max_tokens=30, temperature=1.0, seed=3, ignore_eos=True)
        whole = self.server.ok("/v1/completions", **fields)
        stream = self.server.stream("/v1/completions", stream_options={"include_usage": True}, **fields)
        events = stream.rest()
        self.assertTrue(stream.done)
        self.assertEqual(whole["choices"][0]["text"], "".join(c["text"] for e in events for c in e["choices"]))
        self.assertEqual([], events[-1]["choices"])
        self.assertEqual(whole["usage"]["completion_tokens"], events[-1]["usage"]["completion_tokens"])

    def test_seeded_choices_do_not_depend_on_neighbours(self):
        def call(seed):
            return self.server.complete([9, 8, 7], max_tokens=40, n=2, seed=seed, temperature=1.0, ignore_eos=True)["choices"]

        alone = [call(seed) for seed in range(8)]
        self.assertEqual(alone, at_once([lambda s=seed: call(s) for seed in range(8)]))
        self.assertEqual(8, len({json.dumps(c) for c in alone}), "different seeds should differ")
        self.assertNotEqual(alone[0][0]["text"], alone[0][1]["text"])

    def test_malformed_requests_are_refused_and_hurt_nobody(self):
        model, path = self.server.model(), "/v1/completions"
        good = dict(model=model, prompt=[4, 5, 6], max_tokens=8, temperature=0, return_token_ids=True)
        wanted = self.server.ok(path, **good)["choices"]
        self.refused(404, path, dict(good, model="no-such-model"), "no-such-model")
        self.refused(400, path, b'{"model": ')
        self.refused(400, path, b"[]")
        self.refused(400, path, b'{"a":' * 20000)
        self.refused(400, path, b'{"model": "' + b"\xff\xfe" + b'"}')
        for change in (
            dict(prompt=[999999999]),
            dict(prompt=[-1]),
            dict(prompt=None),
            dict(prompt={}),
            dict(max_tokens="8"),
            dict(max_tokens=-1),
            dict(temperature=-0.5),
            dict(top_p=0),
            dict(n=0),
            dict(stop=[1]),
            dict(logit_bias={"x": 1}),
        ):
            with self.subTest(change):
                self.refused(400, path, dict(good, **change))
        self.refused(400, "/v1/chat/completions", dict(model=model, messages=[]))
        self.refused(400, "/v1/chat/completions", dict(model=model, messages=[{"role": "user"}, 5]))
        self.assertEqual(404, self.server.get("/no/such/route").status)
        self.assertEqual(405, self.server.get(path).status)
        self.assertEqual(wanted, self.server.ok(path, **good)["choices"])

    def test_a_prompt_that_is_too_long_names_both_counts(self):
        self.refused(400, "/v1/completions", dict(model=self.server.model(), prompt=[5] * 600, max_tokens=4), 600, 512)

    def test_a_client_that_leaves_is_forgotten(self):
        stream = self.server.stream("/v1/completions", model=self.server.model(), prompt="the fox", **FOREVER)
        next(iter(stream))
        stream.close()
        self.assertTrue(self.server.wait_idle(30))

    def test_a_client_that_sends_byte_by_byte_is_served(self):
        body = json.dumps(dict(model=self.server.model(), prompt=[4, 5], max_tokens=2)).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((HOST, self.server.port), timeout=PATIENCE_S) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in head.encode() + body:
                s.sendall(bytes([byte]))
            self.assertIn(b"200", s.recv(64).split(b"\r\n")[0])

    def test_garbage_on_the_socket_is_answered_or_cut(self):
        for garbage in (b"\x00" * 100, b"GET /health HTTP/9.9\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"A" * 100000):
            with socket.create_connection((HOST, self.server.port), timeout=PATIENCE_S) as s:
                try:
                    s.sendall(garbage)
                    s.shutdown(socket.SHUT_WR)
                    answer = s.recv(4096)
                except ConnectionError:
                    answer = b""
            self.assertFalse(answer.startswith(b"HTTP/1.1 200"), garbage[:20])
        self.assertEqual(200, self.server.get("/health").status)

    def test_the_openai_client_streams_a_chat(self):
        client = openai.OpenAI(base_url=f"http://{HOST}:{self.server.port}/v1", api_key="any", timeout=PATIENCE_S, max_retries=0)
        fields = dict(
            model=client.models.list().data[0].id,
            messages=[{"role": "user", "content": "the quick brown fox"}],
            max_tokens=20,
            temperature=1.0,
            seed=4,
            extra_body={"ignore_eos": True},
        )
        whole = client.chat.completions.create(**fields)
        chunks = list(client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **fields))
        text = "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices)
        self.assertEqual(whole.choices[0].message.content, text)
        self.assertEqual("length", whole.choices[0].finish_reason)
        self.assertEqual("assistant", chunks[0].choices[0].delta.role)
        self.assertEqual(whole.usage.completion_tokens, chunks[-1].usage.completion_tokens)
        with self.assertRaises(openai.NotFoundError):
            client.chat.completions.create(**dict(fields, model="no-such-model"))
        with self.assertRaises(openai.BadRequestError):
            client.chat.completions.create(**dict(fields, temperature=-1))


class Operation(unittest.TestCase):
    def test_sigterm_lets_running_replies_finish(self):
        with Server(LLAMA) as server:
            stream = server.stream("/v1/completions", model=server.model(), prompt="the fox", **FOREVER)
            next(iter(stream))
            server.terminate()
            rest = stream.rest()
            self.assertTrue(stream.done, "the stream was cut")
            self.assertEqual("length", rest[-1]["choices"][0]["finish_reason"])
            self.assertEqual(0, server.process.wait(PATIENCE_S))

    def test_after_sigterm_nothing_new_is_accepted(self):
        with Server(LLAMA) as server:
            stream = server.stream("/v1/completions", model=server.model(), prompt="the fox", **FOREVER)
            next(iter(stream))
            server.terminate()
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and server.process.poll() is None:
                try:
                    status = server.get("/health").status
                except (OSError, http.client.HTTPException):
                    break
                if status == 503:
                    break
                time.sleep(0.02)
            else:
                self.assertIsNotNone(server.process.poll(), "still accepting after SIGTERM")
            self.assertEqual("length", stream.rest()[-1]["choices"][0]["finish_reason"])

    def test_every_route_asks_for_the_key(self):
        with Server(LLAMA, key="open-sesame") as server:
            body = dict(prompt=[4, 5], max_tokens=1)
            for method, path in (
                ("POST", "/v1/completions"), ("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("POST", "/tokenize"),
                ("POST", "/detokenize"), ("POST", "/apply-template"), ("GET", "/metrics"), ("GET", "/health"),
            ):
                for headers in ({}, {"Authorization": "Bearer open-sesam"}, {"Authorization": "open-sesame"}):
                    self.assertEqual(401, server.request(method, path, body if method == "POST" else None, headers).status, path)
            self.assertEqual(200, server.post("/v1/completions", dict(body, model=server.model())).status)

    def test_a_path_cannot_forge_lines_of_the_log(self):
        with Server(LLAMA, key="open-sesame") as server:
            self.assertEqual(401, server.request("GET", "/x%0aFORGED%1b%5b31m%c2%9b", headers={}).status)
            server.stop()
            self.assertIn("/x\\nFORGED\\x1b[31m\\xc2\\x9b 401", server.said)
            self.assertNotIn("\nFORGED", server.said)

    def test_a_name_in_a_file_cannot_steer_the_terminal(self):
        data = GGUF.read_bytes()
        name = data.index(b"general.name") + len(b"general.name") + 4
        length = int.from_bytes(data[name:name + 8], "little")
        evil = b"\x1b[2J\nFORGED"[:length].ljust(length, b"\x1b")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "evil.gguf"
            path.write_bytes(data[:name + 8] + evil + data[name + 8 + length:])
            with Server(path) as server:
                server.stop()
                self.assertIn("model     \\x1b", server.said)
                self.assertNotIn("\x1b", server.said)

    def test_a_length_that_the_pool_cannot_hold_is_refused_at_once(self):
        command = [program(), "serve", str(LLAMA), "--port", "0", "--max-model-len", "256", "--num-kv-blocks", "4"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(2, run.returncode)
        self.assertRegex(run.stderr, "--max-model-len 256 takes 16 .* has 4 .* at most 64 tokens")
        with Server(LLAMA, "--num-kv-blocks", 4) as server:
            self.assertEqual(64, server.get("/v1/models").json["data"][0]["max_model_len"])
            server.chat("hi", ignore_eos=True)

    def test_of_a_flag_given_twice_the_last_counts(self):
        with Server(LLAMA, "--served-model-name", "brook", "--served-model-name", "river") as server:
            self.assertEqual("river", server.model())

    def test_served_model_name(self):
        with Server(LLAMA, "--served-model-name", "river") as server:
            self.assertEqual("river", server.model())
            self.assertEqual("river", server.complete([4], max_tokens=1)["model"])

    def test_overload_is_refused_not_queued_for_ever(self):
        """more requests than slots: all are answered, in some order"""
        with Server(LLAMA, "--max-num-seqs", 2) as server:
            replies = at_once([lambda i=i: server.complete([i + 3], max_tokens=16, ignore_eos=True) for i in range(24)])
            self.assertEqual([16] * 24, [r["usage"]["completion_tokens"] for r in replies])
            self.assertTrue(server.wait_idle())

    def test_clients_that_come_and_go_leave_nothing_behind(self):
        with Server(LLAMA, "--num-kv-blocks", 64, "--max-num-batched-tokens", 48, env={"WEIR_PARANOID": "1"}) as server:
            model = server.model()

            def come_and_go(i):
                stream = server.stream("/v1/completions", model=model, prompt=[3 + (i + j) % 200 for j in range(40)], **FOREVER)
                for _, _event in zip(range(i % 7), stream):
                    pass
                stream.close()

            at_once([lambda i=i: come_and_go(i) for i in range(24)])
            self.assertTrue(server.wait_idle(60))
            self.assertEqual(200, server.get("/health").status)

    def test_a_port_in_use_is_said_plainly(self):
        with Server(LLAMA) as server:
            second = subprocess.run(
                [program(), "serve", str(LLAMA), "--port", str(server.port)], capture_output=True, text=True, timeout=PATIENCE_S
            )
            self.assertNotEqual(0, second.returncode)
            self.assertIn(str(server.port), second.stdout + second.stderr)


class Damaged(unittest.TestCase):
    """A model that is not what it says: exit status 2 and a message that names it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def refuse(self, path, *words):
        run = subprocess.run([program(), "serve", str(path), "--port", "0"], capture_output=True, text=True, timeout=PATIENCE_S)
        said = run.stdout + run.stderr
        self.assertEqual(2, run.returncode, said)
        for word in (path.name, *words):
            self.assertIn(word, said)

    def damaged(self, name, change):
        data = bytearray(GGUF.read_bytes())
        path = self.folder / name
        path.write_bytes(bytes(change(data)))
        return path

    def test_a_file_that_is_not_there(self):
        self.refuse(self.folder / "nothing.gguf")

    def test_an_empty_file(self):
        self.refuse(self.damaged("empty.gguf", lambda d: b""))

    def test_a_file_cut_anywhere(self):
        size = len(GGUF.read_bytes())
        for cut in (3, 11, 20, 100, size // 3, size // 2, size - 1):
            with self.subTest(cut):
                self.refuse(self.damaged(f"cut-{cut}.gguf", lambda d, n=cut: d[:n]))

    def test_wrong_magic_and_version(self):
        self.refuse(self.damaged("magic.gguf", lambda d: b"GGML" + d[4:]))
        self.refuse(self.damaged("version.gguf", lambda d: d[:4] + b"\x63\0\0\0" + d[8:]), "99")

    def test_counts_beyond_the_file(self):
        huge = (1 << 62).to_bytes(8, "little")
        self.refuse(self.damaged("tensors.gguf", lambda d: d[:8] + huge + d[16:]))
        self.refuse(self.damaged("keys.gguf", lambda d: d[:16] + huge + d[24:]))

    def folder_like_llama(self):
        copy = self.folder / "llama"
        shutil.copytree(LLAMA, copy, ignore=shutil.ignore_patterns("cases.json"))
        return copy

    def test_a_folder_without_its_config(self):
        copy = self.folder_like_llama()
        (copy / "config.json").unlink()
        self.refuse(copy, "config.json")

    def test_an_architecture_nobody_wrote(self):
        copy = self.folder_like_llama()
        config = json.loads((copy / "config.json").read_text())
        config.update(architectures=["PigeonForCausalLM"], model_type="pigeon")
        (copy / "config.json").write_text(json.dumps(config))
        self.refuse(copy, "igeon")

    def test_weights_that_do_not_fit_the_config(self):
        copy = self.folder_like_llama()
        config = json.loads((copy / "config.json").read_text())
        config["intermediate_size"] += 16
        (copy / "config.json").write_text(json.dumps(config))
        self.refuse(copy, str(config["intermediate_size"]))

    def test_a_cut_safetensors_file(self):
        copy = self.folder_like_llama()
        weights = sorted(copy.glob("*.safetensors"))[0]
        weights.write_bytes(weights.read_bytes()[:-7])
        self.refuse(copy, weights.name)


if __name__ == "__main__":
    sys.exit(unittest.main())
