#!/usr/bin/env python3
"""`weir pull` against a Hub on this machine (fake_hub.py): what it brings, where it puts it, what it does when something goes wrong."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from fake_hub import FakeHub, Fault, git_id, lfs_id
from weir_server import GOLDEN, PATIENCE_S, ROOT, Server, program

REPO = "some-owner/some.model_1"
FOLDER = "models--some-owner--some.model_1"
LAYOUT = ROOT / "tests" / "golden" / "hub" / "layout.json"


def content(size, seed=1):
    return random.Random(seed).randbytes(size)


BIG = content(300_000)
SMALL = b'{"model_type": "llama"}\n'


def tree(folder):
    """what a folder holds: links with their targets, files with their checksums"""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = "-> " + os.readlink(path)
        elif path.is_file():
            found[name] = lfs_id(path.read_bytes())
    return found


class WithHub(unittest.TestCase):
    token, metadata = None, True

    def setUp(self):
        self.hub = FakeHub(token=self.token, metadata=self.metadata)
        self.hub.__enter__()
        self.addCleanup(self.hub.__exit__)
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="weir-pull-"))
        self.addCleanup(shutil.rmtree, self.home)
        self.cache = self.home / "cache" / "hub"

    def environment(self, **more):
        plain = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")}
        return plain | dict(HOME=str(self.home), HF_HOME=str(self.cache.parent), HF_ENDPOINT=self.hub.endpoint) | more

    def start(self, *arguments, **environment):
        command = [program(), "pull", *map(str, arguments)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=self.environment(**environment))

    def run_pull(self, *arguments, **environment):
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    def pull(self, *arguments, **environment):
        """the path that weir prints"""
        status, out, err = self.run_pull(*arguments, **environment)
        self.assertEqual(0, status, err)
        self.said = err
        self.assertEqual(1, out.count("\n"), "standard output is the path and nothing else")
        return pathlib.Path(out.rstrip("\n"))

    def refused(self, *arguments, status=2, **environment):
        got, out, err = self.run_pull(*arguments, **environment)
        self.assertEqual((status, ""), (got, out), err)
        return err

    def snapshot(self, commit):
        return self.cache / FOLDER / "snapshots" / commit

    def blob(self, data, lfs=True):
        return self.cache / FOLDER / "blobs" / (lfs_id if lfs else git_id)(data)

    def names(self, path):
        return sorted(str(p.relative_to(path)) for p in path.rglob("*") if not p.is_dir())


class Choice(WithHub):
    """which files come"""

    def test_safetensors_with_what_describes_them_and_no_pickle(self):
        files = {"config.json": SMALL, "tokenizer.json": b"{}", "README.md": b"hello", "chat_template.jinja": b"x", ".gitattributes": b"y"}
        files |= {"additional_chat_templates/tool_use.jinja": b"z", "onnx/config.json": b"n"}
        weights = {"model.safetensors": BIG, "pytorch_model.bin": content(9), "original/consolidated.00.pth": content(8)}
        commit = self.hub.add(REPO, files, weights | {"model-q4_k_m.gguf": content(7)})
        path = self.pull(REPO)
        self.assertEqual(self.snapshot(commit), path)
        wanted = ["additional_chat_templates/tool_use.jinja", "chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"]
        self.assertEqual(wanted, self.names(path))
        self.assertEqual(BIG, (path / "model.safetensors").read_bytes())

    def test_shards_are_those_of_the_index(self):
        names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
        index = json.dumps(dict(weight_map={"a": names[0], "b": names[1], "c": names[0]})).encode()
        lfs = {names[0]: content(1000), names[1]: content(2000, 2), "consolidated.safetensors": content(3000)}
        self.hub.add(REPO, {"config.json": SMALL, "model.safetensors.index.json": index}, lfs)
        path = self.pull(REPO)
        self.assertEqual(["config.json", *names, "model.safetensors.index.json"], self.names(path))

    def add_ggufs(self, *names):
        return self.hub.add(REPO, {"README.md": b"r"}, {name: name.encode() for name in names})

    def test_gguf_by_name_by_type_and_by_default(self):
        commit = self.add_ggufs("m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-IQ4_XS.gguf", "mmproj-m-Q8_0.gguf", "BF16/m-BF16.gguf")
        folder = self.snapshot(commit)
        for wanted, name in (
            (":m-Q8_0.gguf", "m-Q8_0.gguf"), (":q8_0", "m-Q8_0.gguf"), (":IQ4_XS", "m-IQ4_XS.gguf"), (":BF16", "BF16/m-BF16.gguf"),
            (":m-BF16.gguf", "BF16/m-BF16.gguf"), ("", "m-Q4_K_M.gguf"), (":README.md", "README.md"),
        ):
            self.assertEqual(folder / name, self.pull(REPO + wanted), wanted)
        self.assertEqual(("../../blobs/", "../../../blobs/"), tuple(os.readlink(folder / n)[:-64] for n in ("m-Q8_0.gguf", "BF16/m-BF16.gguf")))
        for wanted in (":Q4_XS", ":Q4_K", ":Q5_0", ":x.gguf", ":8_0"):
            self.assertIn("m-IQ4_XS.gguf", self.refused(REPO + wanted), wanted)

    def test_all_parts_of_a_split_gguf(self):
        parts = [f"big/m-Q8_0-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
        commit = self.add_ggufs(*parts, "m-Q4_0.gguf")
        for wanted in (":Q8_0", ":" + parts[1]):
            self.assertEqual(self.snapshot(commit) / parts[0], self.pull(REPO + wanted))
            self.assertEqual(parts, [str(p.relative_to(self.snapshot(commit))) for p in sorted(self.snapshot(commit).glob("big/*"))])
        self.add_ggufs(parts[0], parts[2])
        self.assertIn("00002-of-00003", self.refused(REPO))

    def test_when_there_is_no_telling(self):
        self.add_ggufs("a-Q8_0.gguf", "b-Q8_0.gguf", "c-Q4_0.gguf")
        for wanted in ("", ":Q8_0"):
            error = self.refused(REPO + wanted)
            self.assertIn("a-Q8_0.gguf, b-Q8_0.gguf", error)

    def test_what_weir_cannot_use_is_not_fetched(self):
        for files, word in (
            ({"config.json": b"{}", "pytorch_model.bin": b"p"}, "pickle"),
            ({"adapter_config.json": b"{}", "adapter_model.safetensors": b"a"}, "adapter"),
            ({"README.md": b"r"}, "neither a GGUF file"),
            ({}, "it is empty"),
        ):
            self.hub.add(REPO, files)
            self.assertIn(word, self.refused(REPO))
        self.assertEqual([], self.hub.requests("hub", None, "/resolve/"))

    def test_revisions(self):
        old = self.hub.add(REPO, {}, {"m.gguf": b"old"}, revision="v1/beta")
        new = self.hub.add(REPO, {}, {"m.gguf": b"new"})
        self.assertEqual(b"new", self.pull(REPO).read_bytes())
        for given in ((REPO + "@v1/beta",), (REPO, "--revision", "v1/beta"), (REPO + "@" + old + ":m.gguf",)):
            self.assertEqual(b"old", self.pull(*given).read_bytes())
        refs = {name: (self.cache / FOLDER / "refs" / name).read_text() for name in ("main", "v1/beta")}
        self.assertEqual({"main": new, "v1/beta": old}, refs)
        self.assertFalse((self.cache / FOLDER / "refs" / old).exists())
        self.assertIn("there is no such revision", self.refused(REPO + "@v2"))


class Bare(WithHub):
    """a list that tells names only, as without blobs=true"""

    metadata = False

    def test_sizes_and_checksums_come_with_the_files(self):
        self.hub.add(REPO, {"config.json": SMALL}, {"model.safetensors": BIG})
        path = self.pull(REPO)
        self.assertEqual((SMALL, BIG), tuple((path / n).read_bytes() for n in ("config.json", "model.safetensors")))
        self.assertTrue(self.blob(SMALL, lfs=False).exists() and self.blob(BIG).exists())


class Cache(WithHub):
    def test_layout_is_that_of_huggingface_hub(self):
        """layout.json holds what its snapshot_download left of the same repository (tools/gen_hub_layout.py)"""
        recorded = json.loads(LAYOUT.read_text())
        repository = recorded["repository"]
        files, lfs = ({n: bytes.fromhex(h) for n, h in repository[kind].items()} for kind in ("files", "lfs"))
        commit = self.hub.add(repository["name"], files, lfs, revision=repository["revision"])
        self.pull(f"{repository['name']}@{repository['revision']}")
        ours = tree(self.cache)
        locks = {name for name in ours if name.startswith(".locks/")}
        self.assertEqual(set(recorded["locks"]), locks)
        tag = (self.cache / "CACHEDIR.TAG").read_text().splitlines()[0]
        self.assertEqual(recorded["tag"], tag)
        self.assertEqual(recorded["tree"], {n: v for n, v in ours.items() if n not in locks and n != "CACHEDIR.TAG"})
        self.assertIn(commit, next(iter(recorded["tree"].values())) + "".join(recorded["tree"]))

    def test_what_is_there_is_not_fetched_again(self):
        self.hub.add(REPO, {"config.json": SMALL}, {"model.safetensors": BIG})
        first = self.pull(REPO)
        before = len(self.hub.requests())
        self.assertEqual(first, self.pull(REPO))
        self.assertEqual(1, len(self.hub.requests()) - before, "one question for the list")
        changed = b'{"model_type": "qwen2"}'
        self.hub.add(REPO, {"config.json": changed}, {"model.safetensors": BIG})
        second = self.pull(REPO)
        self.assertEqual(changed, (second / "config.json").read_bytes())
        self.assertEqual(SMALL, (first / "config.json").read_bytes())
        self.assertEqual(1, len(self.hub.requests("cdn")))

    def test_a_blob_of_the_wrong_size_is_fetched_again(self):
        self.hub.add(REPO, {}, {"m.gguf": BIG})
        path = self.pull(REPO)
        self.blob(BIG).write_bytes(b"short")
        self.assertEqual(BIG, self.pull(REPO).read_bytes())
        self.assertEqual(BIG, path.read_bytes())

    def test_two_at_once_fetch_once(self):
        self.hub.add(REPO, {}, {"m.gguf": content(20_000_000)})
        both = [self.start(REPO) for _ in range(2)]
        for process in both:
            out, err = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(0, process.returncode, err)
            self.assertEqual(content(20_000_000), pathlib.Path(out.rstrip("\n")).read_bytes())
        self.assertEqual(1, len(self.hub.requests("cdn", "GET")))

    def test_places(self):
        self.hub.add(REPO, {}, {"m.gguf": b"x"})
        elsewhere = self.home / "else where"
        for place, arguments, variables in (
            (self.home / "a", ("--cache-dir", self.home / "a"), {}),
            (elsewhere, (), dict(HF_HUB_CACHE=str(elsewhere))),
            (self.home / "b", (), dict(HF_HUB_CACHE="~/b")),
            (self.home / "c" / "hub", (), dict(HF_HOME="$HOME/c")),
            (self.home / ".cache" / "huggingface" / "hub", (), dict(HF_HOME="")),
            (self.home / "d" / "huggingface" / "hub", (), dict(HF_HOME="", XDG_CACHE_HOME=str(self.home / "d"))),
        ):
            self.assertTrue(self.pull(REPO, *arguments, **variables).is_relative_to(place), place)

    def test_offline(self):
        self.hub.add(REPO, {}, {"m.gguf": b"x"})
        self.assertIn("HF_HUB_OFFLINE", self.refused(REPO, HF_HUB_OFFLINE="1"))
        path = self.pull(REPO)
        before = len(self.hub.requests())
        self.assertEqual(path, self.pull(REPO, HF_HUB_OFFLINE="1"))
        self.assertEqual(before, len(self.hub.requests()))

    def test_no_room(self):
        listed = [dict(rfilename="m.gguf", size=1 << 49, lfs=dict(sha256="a" * 64, size=1 << 49))]
        self.hub.add(REPO, {}, {"m.gguf": b"x"})
        self.hub.faults.append(Fault("hub", "GET", "/api/", body=json.dumps(dict(sha="b" * 40, siblings=listed)).encode()))
        head = {"X-Linked-Size": str(1 << 49), "X-Linked-Etag": '"' + "a" * 64 + '"'}
        self.hub.faults.append(Fault("hub", "HEAD", status=200, headers=head))
        self.assertIn("has room for", self.refused(REPO))
        self.assertEqual([], self.hub.requests("cdn"))


class Token(WithHub):
    token = "hf_secret"

    def setUp(self):
        super().setUp()
        self.hub.add(REPO, {"config.json": SMALL}, {"model.safetensors": BIG})

    def test_it_goes_to_the_hub_and_nowhere_else(self):
        stored = self.cache.parent / "token"
        stored.parent.mkdir(parents=True)
        for arguments, variables in ((("--token", self.token), {}), ((), dict(HF_TOKEN=self.token)), ((), {})):
            stored.write_text(self.token + "\n")
            self.pull(REPO, *arguments, **variables)
            shutil.rmtree(self.cache)
            stored.unlink()
        self.assertEqual(3, len(self.hub.requests("cdn")))
        self.assertEqual({f"Bearer {self.token}"}, {s.headers.get("authorization") for s in self.hub.requests("hub")})
        self.assertEqual({None}, {s.headers.get("authorization") for s in self.hub.requests("cdn")})

    def test_without_and_with_a_wrong_one(self):
        for arguments in ((), ("--token", "hf_other")):
            error = self.refused(REPO, *arguments)
            self.assertIn("401", error)
            self.assertIn("--token", error)
            self.assertNotIn("hf_other", error)
        self.assertIn("token", self.refused(REPO, "--token", "a\r\nX-Evil: 1"))

    def test_a_gated_model_says_so(self):
        head = {"X-Error-Code": "GatedRepo", "X-Error-Message": "You are not in the list"}
        self.hub.faults.append(Fault("hub", "HEAD", status=403, headers=head))
        error = self.refused(REPO, "--token", self.token)
        self.assertIn("accept the model's terms", error)
        self.assertIn("You are not in the list", error)


class Faults(WithHub):
    def setUp(self):
        super().setUp()
        self.commit = self.hub.add(REPO, {"config.json": SMALL}, {"model.safetensors": BIG})

    def fault(self, *arguments, **fields):
        self.hub.faults.append(Fault(*arguments, **fields))

    def ranges(self):
        return [s.headers.get("range") for s in self.hub.requests("cdn")]

    def incomplete(self):
        return self.blob(BIG).with_name(self.blob(BIG).name + ".incomplete")

    def assert_whole(self, path):
        self.assertEqual(BIG, (path / "model.safetensors").read_bytes())
        self.assertFalse(self.incomplete().exists())

    def assert_nothing(self):
        self.assertFalse(self.blob(BIG).exists())
        self.assertFalse((self.snapshot(self.commit) / "model.safetensors").is_symlink())
        self.assertFalse((self.cache / FOLDER / "refs" / "main").exists())

    def test_dropped_connections_are_taken_up(self):
        self.fault("cdn", "GET", drop_at=100_000)
        self.fault("cdn", "GET", drop_at=50_000)
        self.assert_whole(self.pull(REPO))
        self.assertEqual([None, "bytes=100000-", "bytes=150000-"], self.ranges())
        self.assertEqual([None] + [f'"cdn-{lfs_id(BIG)[:8]}"'] * 2, [s.headers.get("if-range") for s in self.hub.requests("cdn")])

    def test_the_next_process_goes_on(self):
        self.fault("cdn", "GET", drop_at=100_000)
        self.assertIn("model.safetensors", self.refused(REPO, "--retries", 0))
        self.assert_nothing()
        self.assertEqual(BIG[:100_000], self.incomplete().read_bytes())
        self.assert_whole(self.pull(REPO))
        self.assertEqual([None, "bytes=100000-"], self.ranges())

    def test_small_files_are_taken_up_too(self):
        self.fault("hub", "GET", "config.json", drop_at=10)
        self.assert_whole(self.pull(REPO))
        again = self.hub.requests("hub", "GET", "config.json")[-1].headers
        self.assertEqual(("bytes=10-", f'"{git_id(SMALL)}"'), (again.get("range"), again.get("if-range")))

    def test_a_server_without_ranges_sends_all_again(self):
        self.fault("cdn", "GET", drop_at=100_000)
        self.fault("cdn", "GET", ignore_range=True)
        self.assert_whole(self.pull(REPO))

    def test_a_file_that_changed_is_sent_whole(self):
        self.fault("cdn", "GET", drop_at=100_000, headers={"ETag": '"another"'})
        self.assert_whole(self.pull(REPO))
        self.assertEqual('"another"', self.hub.requests("cdn")[-1].headers["if-range"])

    def test_a_damaged_beginning_is_thrown_away(self):
        for damaged in (b"?" * 1000, b"?" * len(BIG), b"?" * (len(BIG) + 5), BIG[:-1] + b"?"):
            self.incomplete().parent.mkdir(parents=True, exist_ok=True)
            self.incomplete().write_bytes(damaged)
            self.assert_whole(self.pull(REPO))
            shutil.rmtree(self.cache)

    def test_a_complete_beginning_needs_no_request(self):
        self.incomplete().parent.mkdir(parents=True)
        self.incomplete().write_bytes(BIG)
        self.assert_whole(self.pull(REPO))
        self.assertEqual([], self.ranges())

    def test_wrong_contents_are_never_kept(self):
        for lfs, where, path in ((True, "cdn", ""), (False, "hub", "config.json")):
            right = BIG if lfs else SMALL
            self.fault(where, "GET", path, body=right[:-1] + bytes([right[-1] ^ 1]))
            self.assertIn("checksum", self.refused(REPO))
            self.assertFalse(self.blob(right, lfs).exists())
            self.assertFalse(self.incomplete().exists())
            shutil.rmtree(self.cache)
        self.assert_whole(self.pull(REPO))

    def test_wrong_lengths(self):
        for fields in (dict(body=BIG[:-5]), dict(body=BIG + b"12345"), dict(extra=b"more")):
            self.fault("cdn", "GET", **fields)
            self.assertRegex(self.refused(REPO), "bytes")
            self.assert_nothing()

    def test_the_list_and_the_file_must_agree(self):
        for headers in ({"X-Linked-Size": "5"}, {"X-Linked-Etag": '"' + "0" * 64 + '"'}, {"X-Repo-Commit": "0" * 40}):
            self.fault("hub", "HEAD", "model.safetensors", headers=headers)
            self.assertIn("model.safetensors: ", self.refused(REPO))
            self.assert_nothing()

    def test_wrong_ranges(self):
        for answer in ("bytes 0-299999/300000", "bytes 100000-299999/300001", "bytes 100000-200000/300000", "x", "bytes */300000"):
            self.fault("cdn", "GET", drop_at=100_000)
            self.fault("cdn", "GET", headers={"Content-Range": answer})
            self.assertIn("the server sends", self.refused(REPO))
            self.assert_nothing()
            shutil.rmtree(self.cache)

    def test_trouble_that_passes(self):
        self.fault("hub", "GET", "/api/", status=503)
        self.fault("hub", "HEAD", status=500)
        self.fault("cdn", "GET", status=429, headers={"Retry-After": "1"})
        self.assert_whole(self.pull(REPO))
        self.assertIn("429", self.said)

    def test_trouble_that_stays(self):
        self.fault("cdn", "GET", status=502, times=100)
        error = self.refused(REPO, "--retries", 2)
        self.assertIn("after 3 attempts", error)
        self.assertEqual(3, len(self.hub.requests("cdn")))
        self.hub.faults.clear()
        self.fault("cdn", "GET", status=429, headers={"Retry-After": "100000"})
        self.assertIn("429", self.refused(REPO))

    def test_nobody_there(self):
        for endpoint in ("http://127.0.0.1:1", "http://nowhere.invalid"):
            self.assertIn("/api/models/", self.refused(REPO, "--retries", 0, HF_ENDPOINT=endpoint))
        for endpoint in ("ftp://127.0.0.1", "nonsense nonsense", "file:///etc"):
            self.assertIn("no http or https address", self.refused(REPO, HF_ENDPOINT=endpoint))

    def test_a_stalled_transfer_is_taken_up(self):
        held = threading.Event()
        self.addCleanup(held.set)
        send, stalled = self.hub.send, []

        def send_slowly(request, status, body, headers=None, fault=None):
            if len(body) == len(BIG) and not stalled:
                stalled.append(True)
                request.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    request.send_header(name, value)
                request.end_headers()
                request.wfile.write(body[:1000])
                request.wfile.flush()
                held.wait(PATIENCE_S)
                request.close_connection = True
            else:
                send(request, status, body, headers, fault)

        self.hub.send = send_slowly
        self.assert_whole(self.pull(REPO, HF_HUB_DOWNLOAD_TIMEOUT="1"))
        self.assertEqual([None, "bytes=1000-"], self.ranges())

    def test_statuses(self):
        for where, status, words in (
            ("hub", 401, "private"), ("hub", 403, "accept the model's terms"), ("hub", 404, "no such model"), ("hub", 418, "418"),
        ):
            self.fault(where, "GET", "/api/", status=status)
            self.assertIn(words, self.refused(REPO))
        self.fault("cdn", "GET", status=404)
        self.assertIn("404", self.refused(REPO))
        self.assertIn("no such model", self.refused("some-owner/other"))


class Hostile(WithHub):
    """a server that means harm"""

    def setUp(self):
        super().setUp()
        self.commit = self.hub.add(REPO, {"config.json": SMALL}, {"model.safetensors": BIG})

    def list(self, body):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.hub.faults.append(Fault("hub", "GET", "/api/", body=body))

    def assert_only_in_the_cache(self):
        outside = [p for p in self.home.rglob("*") if p.is_file() and not p.is_relative_to(self.cache / FOLDER)]
        outside = [p for p in outside if not p.is_relative_to(self.cache / ".locks") and p.name != "CACHEDIR.TAG"]
        self.assertEqual([], outside)

    def test_names_that_lead_elsewhere(self):
        for name in (
            "../evil", "a/../../evil", "/etc/evil", "a//b", "./a", "a/", "", "a\nb", "a\x1b[2Jb", "a\0b", "..", "x" * 256, "d/" * 600 + "x", "\u202egro",
            7, None, ["a"],
        ):
            self.list(dict(sha=self.commit, siblings=[dict(rfilename="config.json"), dict(rfilename="model.safetensors"), dict(rfilename=name)]))
            error = self.refused(REPO)
            self.assertFalse({"\x1b", "\0", "\u202e"} & set(error))
            self.assert_only_in_the_cache()
        self.assertEqual([], self.hub.requests("hub", None, "/resolve/"))

    def test_lists_that_are_none(self):
        good = dict(rfilename="config.json")
        for body in (
            b"", b"{", b"[]", b"null", b"<html>", b"  <!DOCTYPE html>", b"[" * 100_000, {}, dict(sha="../../x", siblings=[]), dict(sha=5, siblings=[]),
            dict(sha="A" * 40, siblings=[]), dict(sha=self.commit), dict(sha=self.commit, siblings={}), dict(sha=self.commit, siblings=[5]),
            dict(sha=self.commit, siblings=[good, good]), dict(sha=self.commit, siblings=[good | dict(size=-1)]),
            dict(sha=self.commit, siblings=[good | dict(size=1e30)]), dict(sha=self.commit, siblings=[good | dict(size="9")]),
        ):
            self.list(body)
            self.refused(REPO)
        self.list(b"<html>log in</html>")
        self.assertIn("web page", self.refused(REPO))

    def test_another_commit_than_asked_for(self):
        self.list(dict(sha="0" * 40, siblings=[]))
        self.assertIn("another commit", self.refused(REPO + "@" + self.commit))

    def test_checksums_that_are_paths(self):
        listed = [dict(rfilename="config.json"), dict(rfilename="model.safetensors", lfs=dict(sha256="../../evil"))]
        for etag in ('"../../../../evil"', '"/tmp/evil"', '""', "", '"' + "g" * 64 + '"', '"' + "a" * 63 + '"'):
            self.list(dict(sha=self.commit, siblings=listed))
            self.hub.faults.append(Fault("hub", "HEAD", "model.safetensors", headers={"X-Linked-Etag": etag, "ETag": etag}))
            self.assertIn("checksum", self.refused(REPO))
            self.assert_only_in_the_cache()

    def test_an_index_that_leads_elsewhere(self):
        for shard in ("../../evil.safetensors", "/evil.safetensors", "not-there.safetensors", "config.json", 5):
            index = json.dumps(dict(weight_map=dict(a=shard))).encode()
            self.hub.add(REPO, {"config.json": SMALL, "model.safetensors.index.json": index})
            self.refused(REPO)
            self.assert_only_in_the_cache()

    def redirect(self, target, times=1):
        self.hub.faults.append(Fault("hub", "GET", "model.safetensors", status=302, headers={"Location": target}, times=times))

    def test_redirects(self):
        loop = f"{self.hub.endpoint}/{REPO}/resolve/main/model.safetensors"
        self.redirect(loop, times=1000)
        self.assertIn("redirected more than", self.refused(REPO))
        self.hub.faults.clear()
        for target in ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/", "http://user:secret@127.0.0.1/", "http://[", "x" * 100_000):
            self.redirect(target)
            self.assertIn("redirects to", self.refused(REPO))
        self.redirect("/" + REPO + "/resolve/main/model.safetensors")  # a relative one is fine
        self.pull(REPO)

    def test_a_web_page_in_place_of_the_file(self):
        page = b"<html>please log in</html>"
        self.hub.faults.append(Fault("cdn", "GET", body=page, headers={"Content-Type": "text/html; charset=utf-8"}))
        self.assertIn("web page", self.refused(REPO))

    def test_endless_headers_and_lists(self):
        self.hub.faults.append(Fault("hub", "GET", "/api/", status=200, headers={f"X-{i}": "x" * 5000 for i in range(80)}))
        self.assertIn("headers", self.refused(REPO))
        self.list(b" " * (65 << 20))
        self.assertIn("a list of more than", self.refused(REPO))

    def test_a_terminal_is_safe_from_what_it_says(self):
        head = {"X-Error-Message": "\x1b[2J evil \x9b31m"}
        self.hub.faults.append(Fault("hub", "GET", "/api/", status=401, headers=head))
        self.assertNotIn("\x1b", self.refused(REPO))


class Names(WithHub):
    def test_what_is_no_name(self):
        for name in ("x", "a/b/c", "/a/b", "a/", "a b/c", "../x", "a/..", "a/b--c", "a/b.", "a/b@", "a/b:", "a/b:../c", "a/b@../c", "a/b:/x", "a/" + "x" * 97):
            self.refused(name)
        self.assertEqual([], self.hub.requests())


class Served(WithHub):
    """owner/name where a path is expected"""

    def setUp(self):
        super().setUp()
        folder = GOLDEN / "llama"
        files = {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in (".json", ".jinja") and p.name != "expected.json"}
        lfs = {"model.safetensors": (folder / "model.safetensors").read_bytes()}
        self.hub.add(REPO, files, lfs)
        self.hub.add("o/g", {}, {"llama-Q8_0.gguf": (GOLDEN / "gguf" / "llama.gguf").read_bytes(), "other-Q4_0.gguf": b"x"})

    def serve(self, model):
        with Server(model, "--threads", 1, env=self.environment()) as server:
            name = server.model()
            text = server.complete([5, 6, 7], max_tokens=4, temperature=0)["choices"][0]["text"]
        return name, text, server.said

    def test_pulled_when_missing_and_then_from_the_cache(self):
        name, text, said = self.serve(REPO)
        self.assertEqual(REPO, name)
        self.assertIn("pulling it from", said)
        self.assertEqual(text, self.serve(GOLDEN / "llama")[1])
        before = len(self.hub.requests())
        again = self.serve(REPO)
        self.assertEqual((REPO, text), again[:2])
        self.assertNotIn("pulling", again[2])
        self.assertEqual(before, len(self.hub.requests()))

    def test_a_gguf_file_by_its_type(self):
        self.assertEqual("llama-Q8_0", self.serve("o/g:q8_0")[0])

    def test_half_a_model_is_not_one(self):
        self.pull(REPO)
        os.unlink(next((self.cache / FOLDER).glob("snapshots/*/model.safetensors")))
        self.assertIn("pulling it from", self.serve(REPO)[2])

    def test_a_wrong_path_is_no_question_to_the_hub(self):
        for path in ("models/llama.gguf", "./a/b", "/no/such", "nothing"):
            run = subprocess.run([program(), "run", path, "-p", "x"], capture_output=True, text=True, env=self.environment())
            self.assertEqual(2, run.returncode)
            self.assertIn("there is no file or folder", run.stderr)
        self.assertEqual([], self.hub.requests())

    def test_what_huggingface_hub_left_is_found(self):
        """a cache as it makes one, also where links are not possible"""
        folder = GOLDEN / "llama"
        for links in (True, False):
            home = self.cache / FOLDER
            commit = "c" * 40
            (home / "snapshots" / commit).mkdir(parents=True)
            (home / "blobs").mkdir()
            (home / "refs").mkdir()
            (home / "refs" / "main").write_text(commit)
            for file in folder.iterdir():
                place = home / "snapshots" / commit / file.name
                if links:
                    (home / "blobs" / file.name).write_bytes(file.read_bytes())
                    place.symlink_to(f"../../blobs/{file.name}")
                else:
                    place.write_bytes(file.read_bytes())
            self.assertEqual(REPO, self.serve(REPO)[0])
            shutil.rmtree(self.cache)
        self.assertEqual([], self.hub.requests())


if __name__ == "__main__":
    sys.exit(unittest.main())
