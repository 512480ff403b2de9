#!/usr/bin/env python3
"""A real model, SmolLM2-135M-Instruct Q4_1: it answers, it streams to the openai client, it keeps to its memory."""
import subprocess
import sys
import unittest

import openai

from weir_server import HOST, PATIENCE_S, ROOT, Server, at_once, program, smollm2

FRANCE = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(smollm2(), "--max-model-len", 2048)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        cls.client = openai.OpenAI(base_url=f"http://{HOST}:{cls.server.port}/v1", api_key="any", timeout=PATIENCE_S, max_retries=0)

    def test_it_knows_the_capital_of_france(self):
        reply = self.client.chat.completions.create(model=self.server.model(), messages=FRANCE, max_tokens=40, temperature=0)
        self.assertIn("Paris", reply.choices[0].message.content)
        self.assertEqual("stop", reply.choices[0].finish_reason)

    def test_the_openai_client_streams_what_a_whole_reply_says(self):
        fields = dict(model=self.server.model(), messages=FRANCE, max_tokens=40, temperature=0.7, seed=1)
        whole = self.client.chat.completions.create(**fields).choices[0].message.content
        chunks = list(self.client.chat.completions.create(stream=True, **fields))
        pieces = [c.delta.content for chunk in chunks for c in chunk.choices if c.delta.content]
        self.assertEqual(whole, "".join(pieces))
        self.assertGreater(len(pieces), 3, "the reply came in one piece")

    def test_a_dozen_conversations_at_once_read_as_alone(self):
        topics = ["rain", "rivers", "mills", "bridges", "fish", "boats", "floods", "locks", "dams", "wells", "lakes", "ice"]

        def write(topic):
            reply = self.server.chat(f"Write one sentence about {topic}.", max_tokens=24, temperature=0)
            return reply["choices"][0]["message"]["content"]

        alone = [write(t) for t in topics]
        self.assertEqual(alone, at_once([lambda t=t: write(t) for t in topics]))

    def test_quickstart_s_way_of_asking(self):
        address = f"http://{HOST}:{self.server.port}"
        asked = subprocess.run(
            [ROOT / "scripts" / "ask", address, FRANCE[0]["content"]], capture_output=True, text=True, timeout=PATIENCE_S
        )
        self.assertEqual(0, asked.returncode, asked.stderr)
        self.assertIn("Paris", asked.stdout)


class Commands(unittest.TestCase):
    def test_run_prints_a_reply(self):
        run = subprocess.run(
            [program(), "run", str(smollm2()), "-p", FRANCE[0]["content"], "--temperature", "0"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S,
        )
        self.assertEqual(0, run.returncode, run.stderr)
        self.assertIn("Paris", run.stdout)

    def test_inspect_names_the_model(self):
        run = subprocess.run([program(), "inspect", str(smollm2())], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(0, run.returncode, run.stderr)
        for fact in ("llama", "Q4_1", "49152"):
            self.assertIn(fact, run.stdout.replace(",", ""))


if __name__ == "__main__":
    sys.exit(unittest.main())
