#!/usr/bin/env python3
"""weir in a terminal: what its commands say, where their output goes, and how they end."""
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from weir_server import GOLDEN, PATIENCE_S, Server, program

LLAMA = GOLDEN / "llama"
GGUF = GOLDEN / "gguf" / "llama.gguf"
QUICK = ("--threads", "1")


def weir(*arguments, said="", stdout=subprocess.PIPE):
    return subprocess.run(
        [program(), *map(str, arguments)], input=said, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S
    )


class Output(unittest.TestCase):
    def test_output_that_is_lost_is_a_failure(self):
        template = json.dumps({"template_text": "x", "messages": []})
        for arguments, said in (
            (("tokenize", LLAMA, "--json"), '{"text":"hi"}\n'),
            (("detokenize", LLAMA, "--json"), '{"ids":[5]}\n'),
            (("template", "render", "--json"), template + "\n"),
            (("run", LLAMA, "--raw", "-p", "hi", "-n", 3, *QUICK), ""),
            (("chat", LLAMA, "-n", 3, *QUICK), "hi\n"),
            (("bench", "throughput", LLAMA, "--prompt-tokens", 4, "--output-tokens", 2, "--json", *QUICK), ""),
            (("inspect", GGUF), ""),
            (("inspect", GGUF, "--json"), ""),
            (("--help",), ""),
            (("--version",), ""),
        ):
            with self.subTest(arguments[0]), open("/dev/full", "w", encoding="ascii") as full:
                run = weir(*arguments, said=said, stdout=full)
                self.assertEqual(1, run.returncode, run.stderr)
                self.assertIn("weir: ", run.stderr)
                self.assertEqual(0, weir(*arguments, said=said).returncode)


class Flags(unittest.TestCase):
    def test_help_lists_what_works(self):
        for command in (("serve",), ("run",), ("chat",), ("bench", "throughput")):
            run = weir(*command, "--help")
            self.assertEqual(0, run.returncode)
            for word in ("int8", "fp8", "radix", "speculative"):
                self.assertNotIn(word, run.stdout)

    def test_what_does_not_work_is_refused_by_name(self):
        for flag, value, word in (
            ("--kv-cache-dtype", "int8", "f16"),
            ("--prefix-index", "radix", "use --prefix-index hash"),
            ("--speculative-config", "{}", "speculative decoding is not supported yet"),
        ):
            run = weir("run", LLAMA, "-p", "hi", flag, value)
            self.assertEqual(2, run.returncode)
            self.assertIn(flag, run.stderr)
            self.assertIn(word, run.stderr)

    def test_a_shutdown_takes_a_number_of_seconds(self):
        for value in ("nan", "-1", "inf", "x"):
            run = weir("serve", "/no/such/model", "--shutdown-timeout", value)
            self.assertEqual(2, run.returncode)
            self.assertIn("--shutdown-timeout", run.stderr)


class Chat(unittest.TestCase):
    def chat(self, said, *arguments):
        run = weir("chat", LLAMA, "-n", "4", *QUICK, *arguments, said=said)
        self.assertEqual(0, run.returncode, run.stderr)
        return run

    def test_mistyped_commands_are_not_messages(self):
        for line in ("/sytem x", "/systemfoo", "/clear all", "/"):
            run = self.chat(line + "\n")
            self.assertEqual("", run.stdout, line)
            self.assertIn(f"there is no command '{line}'", run.stderr)
            self.assertIn("/system TEXT", run.stderr)
        self.assertIn("prompt tokens", self.chat(" /not a command\n").stderr)

    def test_system_sets_the_prompt_and_begins_anew(self):
        """a longer system prompt makes the same message longer"""
        counts = [self.prompt_tokens(s) for s in ("hi\n", "/system\nhi\n", "/system the quick brown fox\nhi\n")]
        self.assertEqual(counts[0], counts[1])
        self.assertLess(counts[1], counts[2])
        self.assertEqual(counts[0], self.prompt_tokens("one\n/clear\nhi\n"))

    def prompt_tokens(self, said):
        return int(self.chat(said).stderr.rpartition("[")[2].split()[0])

    def test_a_full_conversation_names_the_way_out(self):
        run = self.chat("hi\n" * 12 + "/clear\nhi\n", "--max-model-len", "120", "--temperature", "0")
        self.assertIn("the conversation has filled the context of 120 tokens; /clear begins a new one", run.stderr)
        self.assertIn("prompt tokens", run.stderr.splitlines()[-1], "after /clear it goes on")
        alone = self.chat("the quick brown fox " * 40 + "\n", "--max-model-len", "120").stderr
        self.assertIn("shorten the prompt", alone)
        self.assertNotIn("/clear", alone)


class Inspect(unittest.TestCase):
    def test_memory_is_that_of_the_sequences_asked_for(self):
        for model in (LLAMA, GGUF, GOLDEN / "llama-bf16"):
            facts = json.loads(weir("inspect", model, "--json", "--context", 100, "--batch", 3).stdout)
            memory = facts["memory"]
            # Whole blocks of 16 tokens, as the cache is laid out.
            self.assertEqual(3 * 112 * facts["kv_bytes_per_token"][memory["kv_dtype"]], memory["kv"])
            self.assertEqual(sum(t["bytes"] for t in facts["tensors"]), memory["weights"])
            self.assertEqual(memory["kv"] + memory["weights"], facts["memory_bytes"])
            self.assertIn("288 tokens", facts["tokenizer"])
        windows = json.loads(weir("inspect", GOLDEN / "mistral-swa", "--json", "--context", 400).stdout)
        self.assertLess(windows["memory"]["kv"], 400 * windows["kv_bytes_per_token"]["f32"])

    def test_tensors_by_layer_and_all(self):
        layers, all_of_them = weir("inspect", GGUF).stdout, weir("inspect", GGUF, "--tensors", "all").stdout
        self.assertRegex(layers, r"layers 0 to \d+: .* each")
        self.assertEqual(1, layers.count("attn_q.weight"))
        self.assertIn("blk.1.attn_q.weight F32", all_of_them)

    def test_what_cannot_be_served_is_shown_as_far_as_it_can_be_read(self):
        with tempfile.TemporaryDirectory(prefix="weir-test-") as folder:
            folder = pathlib.Path(folder) / "model"
            shutil.copytree(LLAMA, folder)
            (folder / "tokenizer.json").write_text("{}")
            (folder / "chat_template.jinja").write_text("{% for %}")
            run = weir("inspect", folder)
            self.assertEqual(0, run.returncode, run.stderr)
            self.assertRegex(run.stdout, r"tokenizer +cannot be used")
            self.assertRegex(run.stdout, r"template +cannot be used")
            (folder / "config.json").unlink()
            run = weir("inspect", folder)
            self.assertEqual(0, run.returncode, run.stderr)
            self.assertIn("config.json: no such file", run.stdout)
            self.assertIn("model.norm.weight F32 [32]", run.stdout)
            (folder / "model.safetensors").unlink()
            self.assertEqual(2, weir("inspect", folder).returncode)


class Broken(unittest.TestCase):
    """A model whose every logit is a NaN."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-test-")) / "broken"
        self.addCleanup(shutil.rmtree, self.folder.parent)
        shutil.copytree(LLAMA, self.folder)
        path = self.folder / "model.safetensors"
        data = bytearray(path.read_bytes())
        header = struct.unpack("<Q", data[:8])[0]
        at = 8 + header + json.loads(data[8:8 + header])["model.norm.weight"]["data_offsets"][0]
        data[at:at + 4] = struct.pack("<f", float("nan"))
        path.write_bytes(data)

    def test_run_says_why_it_stopped(self):
        run = weir("run", self.folder, "--raw", "-p", "hi", *QUICK)
        self.assertEqual(1, run.returncode)
        self.assertIn("weir: the engine could not go on with this reply: the model's logits for position", run.stderr)

    def test_requests_and_the_log_say_why(self):
        with Server(self.folder) as server:
            model = server.model()
            for fields in (dict(max_tokens=4), dict(max_tokens=0, echo=True, logprobs=2), dict(max_tokens=1, prompt_logprobs=0)):
                reply = server.post("/v1/completions", dict(model=model, prompt=[5, 6, 7], **fields))
                self.assertEqual(500, reply.status, reply.text)
                self.assertIn("hold a NaN", reply.json["error"]["message"])
            events = server.stream("/v1/completions", model=model, prompt=[5, 6, 7], max_tokens=4).rest()
            self.assertEqual(["error"], [key for event in events for key in event])
            server.stop()
            self.assertIn("error sequence", server.said)
            self.assertEqual(4, server.said.count("hold a NaN"))


if __name__ == "__main__":
    sys.exit(unittest.main())
