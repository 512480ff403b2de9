#!/usr/bin/env python3
"""The JSON-lines filters: `weir tokenize`, `weir detokenize` and `weir template render`. One answer per line, each before the next
line is read."""
import json
import subprocess
import sys
import threading
import unittest

from weir_server import GOLDEN, PATIENCE_S, program

GGUF = GOLDEN / "gguf" / "llama.gguf"
FOLDER = GOLDEN / "llama" / "tokenizer.json"
TEXTS = ["", "a", "the quick brown fox", "  two\n\n\ttabs  ", "naïve 你好 😀", "<|im_start|>user", "0123456789" * 3]


class Filter:
    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [program(), *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self.watch = threading.Timer(PATIENCE_S, self.process.kill)
        self.watch.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        status = self.process.wait()
        self.watch.cancel()
        self.process.stdout.close()
        if status != 0:
            raise AssertionError(f"the filter ended with status {status}")

    def raw(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __call__(self, **request):
        return self.raw(json.dumps(request))


class Tokenizers(unittest.TestCase):
    def test_round_trip_from_gguf_and_from_json(self):
        for file in (GGUF, FOLDER):
            with Filter("tokenize", file, "--json") as tokenize, Filter("detokenize", file, "--json") as detokenize:
                for text in TEXTS:
                    for parse_special in (False, True):
                        ids = tokenize(text=text, add_special=False, parse_special=parse_special)["ids"]
                        self.assertEqual(text, detokenize(ids=ids)["text"], file.name)

    def test_gguf_and_json_agree(self):
        with Filter("tokenize", GGUF, "--json") as a, Filter("tokenize", FOLDER, "--json") as b:
            for text in TEXTS:
                for special in (False, True):
                    request = dict(text=text, add_special=False, parse_special=special)
                    self.assertEqual(a(**request), b(**request), text)

    def test_text_becomes_a_control_token_only_when_asked(self):
        with Filter("tokenize", FOLDER, "--json") as tokenize:
            self.assertEqual([1], tokenize(text="<|im_start|>", add_special=False, parse_special=True)["ids"])
            self.assertNotIn(1, tokenize(text="<|im_start|>", add_special=False, parse_special=False)["ids"])

    def test_a_bad_line_is_answered_and_the_next_one_too(self):
        with Filter("tokenize", FOLDER, "--json") as tokenize:
            for line in ("{", "[]", "{}", '{"text": 5}', '{"text": "\\ud800"}'):
                self.assertIn("error", tokenize.raw(line), line)
            self.assertIn("ids", tokenize(text="fox", add_special=False, parse_special=False))
        with Filter("detokenize", FOLDER, "--json") as detokenize:
            self.assertIn("error", detokenize.raw('{"ids": [99999999]}'))
            self.assertIn("error", detokenize.raw('{"ids": ["x"]}'))


class Templates(unittest.TestCase):
    def test_messages(self):
        template = (GOLDEN / "llama" / "chat_template.jinja").read_text(encoding="utf-8")
        request = dict(
            template_text=template,
            messages=[{"role": "user", "content": "Hi 😀"}],
            tools=None,
            kwargs={"add_generation_prompt": True},
            bos_token=None,
            eos_token=None,
        )
        with Filter("template", "render", "--json") as render:
            wanted = "<|im_start|>user\nHi 😀<|im_end|>\n<|im_start|>assistant\n"
            self.assertEqual({"text": wanted}, render(**request))

    def test_context_and_errors(self):
        with Filter("template", "render", "--json") as render:
            self.assertEqual({"text": "3 b"}, render(template_text="{{ x + 1 }} {{ y['a'] }}", context={"x": 2, "y": {"a": "b"}}))
            self.assertIn("error", render(template_text="{% for %}", context={}))
            self.assertIn("no tools", render(template_text="{{ raise_exception('no tools') }}", context={})["error"])
            self.assertIn("error", render.raw("{"))
            endless = "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}"
            self.assertIn("error", render(template_text=endless, context={}))
            self.assertEqual({"text": "still here"}, render(template_text="still here", context={}))


if __name__ == "__main__":
    sys.exit(unittest.main())
