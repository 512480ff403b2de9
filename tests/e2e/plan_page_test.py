#!/usr/bin/env python3
"""The planner's page: in a real browser a person fills in the form and sees the plan; over HTTP nothing else is taken."""
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

from browser import Browser
from weir_server import HOST, PATIENCE_S, announced_port, end_with_parent, program


class PlanServer:
    def __init__(self):
        self.port = None
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program(), "plan", "serve", "--host", HOST, "--port", "0"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=end_with_parent,
        )

    def __enter__(self):
        deadline = time.monotonic() + PATIENCE_S
        while not self.port:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("weir plan serve is not ready")
            time.sleep(0.05)
            self.port = announced_port(self.log)
        return self

    def __exit__(self, kind, *_):
        self.process.terminate()
        status = self.process.wait(30)
        self.log.close()
        if kind is None and status != 0:
            raise AssertionError(f"weir plan serve ended with {status}")

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            reply = connection.getresponse()
            return reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read().decode("utf-8")
        finally:
            connection.close()

    def plan(self, question="parallel", **changes):
        request = {"model": "Llama-3.1-70B", "hardware": "H100-SXM", "devices": 4, "weights": ["fp8"], "kv_bits": [8]}
        request.update(changes)
        status, _, text = self.ask("POST", f"/api/{question}", json.dumps(request))
        return status, json.loads(text)


def fill(page, **values):
    for name, value in values.items():
        page.evaluate(f"document.getElementById({name!r}).value = {str(value)!r}")
    before = page.evaluate("document.body.dataset.done || '0'")
    page.evaluate("document.getElementById('form').requestSubmit()")
    page.wait_for(f"(document.body.dataset.done || '0') !== {before!r}")


class InTheBrowser(unittest.TestCase):
    def opened(self, server, page):
        page.open(f"http://{HOST}:{server.port}/")
        page.wait_for("document.body.dataset.ready === 'true'")

    def test_a_form_becomes_a_plan_with_front_memory_roofline_and_arithmetic(self):
        with PlanServer() as server, Browser() as page:
            self.opened(server, page)
            self.assertTrue(page.evaluate("[...document.querySelectorAll('#model option')].some((o) => o.value === 'Llama-3.1-70B')"))
            fill(page, model="Llama-3.1-70B", hardware="H100-SXM", devices=8, input=2048, output=512, price=2.5)
            text = page.evaluate("document.body.innerText")
            self.assertTrue(page.evaluate("document.getElementById('error').hidden"), text)
            dots = page.evaluate("document.querySelectorAll('#front circle').length")
            self.assertGreater(dots, 5)
            self.assertGreater(page.evaluate("document.querySelectorAll('#best tr').length"), 3)
            self.assertGreater(page.evaluate("document.querySelectorAll('#refused tr').length"), 1)
            self.assertIn("Pareto front", page.evaluate("document.getElementById('arithmetic').textContent"))
            page.wait_for("document.querySelectorAll('#roofline .operator').length > 3")
            page.wait_for("document.querySelectorAll('#arithmetic details').length === 3")
            self.assertIn("ridge points", page.evaluate("document.getElementById('arithmetic').textContent"))
            # Choosing another dot shows that one, and its memory adds up to a device's.
            page.evaluate("document.querySelectorAll('#front circle')[0].dispatchEvent(new MouseEvent('click'))")
            first = page.evaluate("document.getElementById('chosen').innerText")
            page.evaluate(f"document.querySelectorAll('#front circle')[{dots - 1}].dispatchEvent(new MouseEvent('click'))")
            self.assertNotEqual(first, page.evaluate("document.getElementById('chosen').innerText"))
            self.assertEqual(1, page.evaluate("document.querySelectorAll('#front circle.chosen').length"))
            shares = page.evaluate("[...document.querySelectorAll('#memory .bar span')].map((e) => parseFloat(e.style.width))")
            self.assertEqual(3, len(shares))
            self.assertTrue(10 < shares[0] < 100 and sum(shares) <= 100.1, shares)
            picture = os.environ.get("WEIR_SCREENSHOT")
            if picture:
                page.screenshot(picture)

    def test_what_cannot_be_is_refused_with_the_number(self):
        with PlanServer() as server, Browser() as page:
            self.opened(server, page)
            fill(page, model="Llama-3.1-70B", hardware="H100-SXM", devices=1, weights="bf16")
            error = page.evaluate("document.getElementById('error').textContent")
            self.assertIn("does not fit", error)
            self.assertIn("weights of 14", error)
            self.assertEqual(0, page.evaluate("document.querySelectorAll('#front circle').length"))
            fill(page, devices=8, tpot="0.1")
            self.assertIn("below one step", page.evaluate("document.getElementById('error').textContent"))
            fill(page, tpot="")
            self.assertTrue(page.evaluate("document.getElementById('error').hidden"))

    def test_nothing_the_server_says_becomes_markup_and_no_other_script_runs(self):
        with PlanServer() as server, Browser() as page:
            self.opened(server, page)
            # A server whose every text is an attack.
            page.evaluate("""
                window.real = window.fetch;
                const evil = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</' + 'script>';
                const taint = (v) => typeof v === 'string' ? evil + v : Array.isArray(v) ? v.map(taint)
                    : v && typeof v === 'object' ? Object.fromEntries(Object.entries(v).map(([k, w]) => [k, taint(w)])) : v;
                window.fetch = async (...a) => { const r = await window.real(...a); const j = await r.json();
                    return { ok: r.ok, status: r.status, json: async () => taint(j) }; };
                0""")
            fill(page, model="Llama-3.1-70B", hardware="H100-SXM", devices=8)
            self.assertIn("<img src=x", page.evaluate("document.getElementById('best').textContent"))
            fill(page, tpot="0.1")
            self.assertIn("<img src=x", page.evaluate("document.getElementById('error').textContent"))
            self.assertEqual(0, page.evaluate("document.querySelectorAll('img').length"))
            self.assertEqual(1, page.evaluate("document.querySelectorAll('script').length"))
            # And if something did, the policy stops it.
            page.evaluate("""
                const s = document.createElement('script'); s.textContent = 'window.hacked = 2'; document.body.append(s);
                const d = document.createElement('div'); d.innerHTML = '<img src=x onerror="window.hacked = 3">'; document.body.append(d); 0""")
            time.sleep(0.3)
            self.assertIsNone(page.evaluate("window.hacked === undefined ? null : window.hacked"))


class OverHttp(unittest.TestCase):
    def test_hostile_requests_get_an_error_that_names_the_field(self):
        with PlanServer() as server:
            self.assertEqual(200, server.plan()[0])
            for field, value in [
                ("model", "/etc/passwd"), ("model", "../../models"), ("model", "."), ("model", ""), ("model", "x" * 5000), ("model", 7),
                ("model", None), ("model", "Llama-3.1-70B\0/etc"), ("hardware", "H100-SXM,memory_gb=1e9"), ("hardware", "/dev/null"),
                ("devices", 0), ("devices", 1e9), ("devices", 1.5), ("devices", "8"), ("input_tokens", -1), ("input_tokens", 1e300),
                ("output_tokens", 1), ("cached_fraction", 2), ("ttft_ms", 0), ("tpot_ms", -5), ("price_per_device_hour", 1e99),
                ("weights", "fp8"), ("weights", ["fp8"] * 100), ("weights", ["/etc/passwd"]), ("kv_bits", [0]), ("kv_bits", ["8"]),
                ("aggregated", 1), ("batch_tokens", [1]), ("svg", "x.svg"), ("tp", 0), ("batch", 1e18),
            ]:
                with self.subTest(field=field, value=str(value)[:40]):
                    status, reply = server.plan(**{field: value})
                    self.assertIn(status, (400, 404))
                    self.assertIn(field, reply["error"]["field"] + reply["error"]["message"])
            self.assertEqual(400, server.plan(aggregated=False, disaggregated=False)[0])
            self.assertEqual(200, server.plan()[0])

    def test_one_deployment_is_explained_and_its_limits_are_checked(self):
        with PlanServer() as server:
            for question in ("roofline", "size"):
                status, reply = server.plan(question, tp=4, batch=16)
                self.assertEqual(200, status, reply)
                self.assertTrue(reply["text"])
                for wrong in ({"tp": 3}, {"tp": 1000}, {"batch": 0}, {"kv_bits": [7]}, {"weights": ["/etc/passwd"]}, {"ep": 2}):
                    status, reply = server.plan(question, **wrong)
                    self.assertIn(status, (400, 404), (question, wrong))
                    self.assertTrue(reply["error"]["message"])

    def test_bodies_that_are_no_request_are_refused(self):
        with PlanServer() as server:
            for body in ["", "{", "[]", "7", "null", "[" * 10000, '{"a":' * 3000, "\xff", '{"model": NaN}', '{"devices": 1e999}']:
                with self.subTest(body=body[:20]):
                    self.assertEqual(400, server.ask("POST", "/api/parallel", body.encode("latin-1"))[0])
            self.assertEqual(413, server.ask("POST", "/api/parallel", b" " * 100000)[0])
            self.assertEqual(405, server.ask("GET", "/api/parallel")[0])
            self.assertEqual(405, server.ask("POST", "/")[0])
            for path in ("/etc/passwd", "/../plan.js", "/plan.js/..", "/api", "/data/hardware.csv", "//"):
                self.assertEqual(404, server.ask("GET", path)[0], path)

    def test_other_sites_get_nothing(self):
        with PlanServer() as server:
            self.assertNotEqual(200, server.ask("GET", "/", headers={"Host": "evil.example"})[0])
            self.assertNotEqual(200, server.ask("POST", "/api/parallel", "{}", {"Origin": "http://evil.example"})[0])
            headers = server.ask("GET", "/")[1]
            self.assertIn("script-src 'self'", headers["content-security-policy"])
            self.assertNotIn("unsafe", headers["content-security-policy"])
            self.assertEqual("nosniff", headers["x-content-type-options"])

    def test_the_page_says_what_the_command_says(self):
        with PlanServer() as server:
            status, page = server.plan(input_tokens=2048, output_tokens=256)
            self.assertEqual(200, status)
        command = [program(), "plan", "parallel", "Llama-3.1-70B", "H100-SXM", "--devices", "4", "--weights", "fp8", "--kv", "fp8",
                   "--input", "2048", "--output", "256"]
        output = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)
        self.assertEqual(output["front"], page["front"])
        self.assertEqual(output["refusals"], page["refusals"])
        again = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(output, json.loads(again))
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.assertEqual(text, page["text"])


if __name__ == "__main__":
    sys.exit(unittest.main())
