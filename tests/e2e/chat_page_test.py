#!/usr/bin/env python3
"""The chat page in a real browser: a person types a question, the reply streams into the page."""
import os
import sys
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


if __name__ == "__main__":
    sys.exit(unittest.main())
