#!/usr/bin/env python3
"""The chat page in a real browser: a person types a question, the reply streams into the page."""
import os
import pathlib
import sys
import tempfile
import unittest

from browser import Browser
from weir_server import GOLDEN, HOST, Server


class ChatPage(unittest.TestCase):
    def test_a_question_is_answered_on_the_page_and_the_conversation_goes_on(self):
        with Server(GOLDEN / "llama") as server, Browser() as page:
            page.open(f"http://{HOST}:{server.port}/")
            page.wait_for(f"document.getElementById('model').textContent === {server.model()!r}")
            page.evaluate("document.getElementById('max-tokens').value = '12'")
            for turn in (1, 2):
                asked = f"the quick <b>brown</b> fox {turn}"
                page.evaluate(
                    f"document.getElementById('prompt').value = {asked!r}; document.getElementById('form').requestSubmit()"
                )
                page.wait_for(f"document.querySelectorAll('.message.assistant[data-done=true]').length === {turn}")
                shown = page.evaluate("[...document.querySelectorAll('.message.user .text')].map((e) => e.textContent)")
                self.assertEqual(asked, shown[-1])
            # Random weights say anything, and Markdown may eat signs of it; that something came is what can be asked.
            replies = page.evaluate("[...document.querySelectorAll('.message.assistant')].map((e) => e.textContent)")
            self.assertEqual(2, len(replies))
            self.assertTrue(all(replies))
            self.assertEqual(0, page.evaluate("document.querySelectorAll('.bad').length"), page.evaluate("document.body.innerText"))
            picture = os.environ.get("WEIR_SCREENSHOT")
            if picture:
                page.screenshot(picture)
            self.assertTrue(server.wait_idle())


    def test_reasoning_is_folded_away(self):
        template = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "thinking.jinja"
            path.write_text(template, encoding="utf-8")
            with Server(GOLDEN / "llama", "--chat-template", path) as server, Browser() as page:
                page.open(f"http://{HOST}:{server.port}/")
                page.wait_for(f"document.getElementById('model').textContent === {server.model()!r}")
                page.evaluate("document.getElementById('max-tokens').value = '12'")
                page.evaluate("document.getElementById('prompt').value = 'fox'; document.getElementById('form').requestSubmit()")
                page.wait_for("document.querySelectorAll('.message.assistant[data-done=true]').length === 1")
                self.assertTrue(page.evaluate("document.querySelector('.assistant .think:not([hidden]) .thought').textContent"))
                self.assertFalse(page.evaluate("document.querySelector('.assistant .think').open"))
                self.assertEqual("", page.evaluate("document.querySelector('.assistant .text').textContent"))


if __name__ == "__main__":
    sys.exit(unittest.main())
