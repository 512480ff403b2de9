"""A Hugging Face Hub on 127.0.0.1, as much of it as a client sees: the API's list of files, `resolve` with its headers, LFS contents
on a second server (the CDN, another origin) behind a redirect, ranges; and the faults that networks and servers have.

    hub = FakeHub()                                   # a context manager
    hub.add("owner/name", {"config.json": b"{}"}, lfs={"model.gguf": data})
    hub.faults.append(Fault("cdn", "GET", drop_at=1000))

Requests are recorded in hub.seen, in order.
"""
import dataclasses
import hashlib
import http.server
import json
import re
import socket
import threading
import urllib.parse


def git_id(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def lfs_id(data):
    return hashlib.sha256(data).hexdigest()


@dataclasses.dataclass
class File:
    data: bytes
    lfs: bool

    @property
    def id(self):
        return (lfs_id if self.lfs else git_id)(self.data)


@dataclasses.dataclass
class Fault:
    """What goes wrong with requests to `where` ("hub" or "cdn") by `method` whose path holds `path`, `times` times."""

    where: str
    method: str
    path: str = ""
    times: int = 1
    status: int = 0  # answer with it
    headers: dict = dataclasses.field(default_factory=dict)  # added to the answer, or in place of its own
    drop_at: int = -1  # close the connection after so many bytes of the body
    extra: bytes = b""  # sent behind the body, in chunks, so that no length gives it away
    body: bytes = None  # instead of the file's
    ignore_range: bool = False


@dataclasses.dataclass
class Seen:
    where: str
    method: str
    path: str
    headers: dict


class FakeHub:
    def __init__(self, token=None, metadata=True):
        self.token, self.metadata = token, metadata  # metadata: whether the list tells sizes and checksums
        self.repos, self.faults, self.seen = {}, [], []
        self.lock = threading.Lock()
        self.hub, self.cdn = self.server("hub"), self.server("cdn")
        self.endpoint = f"http://127.0.0.1:{self.hub.server_port}"
        self.cdn_address = f"http://127.0.0.1:{self.cdn.server_port}"

    def add(self, repo, files, lfs=None, revision="main"):
        """a commit; returns its id"""
        content = {name: File(data, False) for name, data in files.items()}
        content |= {name: File(data, True) for name, data in (lfs or {}).items()}
        commit = hashlib.sha1(json.dumps([(n, f.id) for n, f in sorted(content.items())]).encode()).hexdigest()
        self.repos.setdefault(repo, {})
        self.repos[repo][revision] = self.repos[repo][commit] = (commit, content)
        return commit

    def requests(self, where=None, method=None, path=""):
        with self.lock:
            return [s for s in self.seen if where in (None, s.where) and method in (None, s.method) and path in s.path]

    def __enter__(self):
        self.threads = [threading.Thread(target=s.serve_forever, args=(0.05,), daemon=True) for s in (self.hub, self.cdn)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        for server in (self.hub, self.cdn):
            server.shutdown()
            server.server_close()

    def server(self, where):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def log_message(self, *_):
                pass

            def do_GET(self):
                fake.answer(self, where)

            do_HEAD = do_GET

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # clients may leave

        return Server(("127.0.0.1", 0), Handler)

    # ------------------------------------------------------------------------------------ answers
    def answer(self, request, where):
        with self.lock:
            headers = {k.lower(): v for k, v in request.headers.items()}
            self.seen.append(Seen(where, request.command, request.path, headers))
            fault = next((f for f in self.faults if (f.where, f.method) == (where, request.command) and f.path in request.path), None)
            if fault:
                fault.times -= 1
                if fault.times == 0:
                    self.faults.remove(fault)
        if fault and fault.status:
            return self.send(request, fault.status, fault.body or b"", fault.headers)
        path = urllib.parse.urlsplit(request.path).path
        if where == "cdn":
            return self.contents(request, self.by_id(path[1:]), {"ETag": f'"cdn-{path[1:9]}"'}, fault)
        if self.token and headers.get("authorization") != f"Bearer {self.token}":
            return self.send(request, 401, b"{}", {"X-Error-Message": "Invalid username or password."})
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/([^/]+)", path):
            return self.list_files(request, found[1], urllib.parse.unquote(found[2]), fault)
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self.resolve(request, found[1], urllib.parse.unquote(found[2]), urllib.parse.unquote(found[3]), fault)
        return self.send(request, 404, b"")

    def revision(self, request, repo, revision):
        if repo not in self.repos:
            self.send(request, 404, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif revision not in self.repos[repo]:
            self.send(request, 404, b"{}", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
        else:
            return self.repos[repo][revision]
        return None

    def list_files(self, request, repo, revision, fault):
        if (found := self.revision(request, repo, revision)) is None:
            return
        commit, files = found
        siblings = []
        for name, file in files.items():
            entry = dict(rfilename=name)
            if self.metadata and "blobs=true" in request.path:
                entry |= dict(size=len(file.data), blobId=git_id(b"version https://git-lfs" if file.lfs else file.data))
                if file.lfs:
                    entry["lfs"] = dict(sha256=file.id, size=len(file.data), pointerSize=134)
            siblings.append(entry)
        body = json.dumps(dict(id=repo, modelId=repo, sha=commit, private=False, siblings=siblings)).encode()
        if fault and fault.body is not None:
            body = fault.body
        self.send(request, 200, body, {"Content-Type": "application/json"} | (fault.headers if fault else {}))

    def resolve(self, request, repo, revision, name, fault):
        if (found := self.revision(request, repo, revision)) is None:
            return
        commit, files = found
        if name not in files:
            headers = {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found", "X-Repo-Commit": commit}
            return self.send(request, 404, b"", headers)
        file = files[name]
        headers = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if not file.lfs:
            return self.contents(request, file, headers | {"ETag": f'"{file.id}"'}, fault)
        headers |= {"X-Linked-Size": str(len(file.data)), "X-Linked-Etag": f'"{file.id}"', "ETag": '"pointer"'}
        headers |= {"Location": f"{self.cdn_address}/{file.id}?signature=x"} | (fault.headers if fault else {})
        self.send(request, 302, b"Found. Redirecting", headers)

    def by_id(self, content_id):
        for revisions in self.repos.values():
            for _, files in revisions.values():
                for file in files.values():
                    if file.id == content_id:
                        return file
        return None

    def contents(self, request, file, headers, fault):
        if file is None:
            return self.send(request, 404, b"")
        data, status = file.data if not fault or fault.body is None else fault.body, 200
        wanted = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        fresh = request.headers.get("If-Range", headers["ETag"]) == headers["ETag"]
        if wanted and fresh and not (fault and fault.ignore_range):
            begin = int(wanted[1])
            if begin >= len(data):
                return self.send(request, 416, b"", {"Content-Range": f"bytes */{len(data)}"})
            headers = headers | {"Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"}
            data, status = data[begin:], 206
        headers = {"Content-Type": "application/octet-stream"} | headers | (fault.headers if fault else {})
        self.send(request, status, data, headers, fault)

    def send(self, request, status, body, headers=None, fault=None):
        headers = {"Content-Length": str(len(body))} | (headers or {})
        if fault and fault.extra:
            del headers["Content-Length"]
            headers["Transfer-Encoding"] = "chunked"
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "HEAD":
            return
        try:
            if fault and fault.extra:
                for piece in (body, fault.extra, b""):
                    request.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            elif fault and fault.drop_at >= 0:
                request.wfile.write(body[: fault.drop_at])
                request.wfile.flush()
                request.connection.shutdown(socket.SHUT_RDWR)
                request.close_connection = True
            else:
                request.wfile.write(body)
        except OSError:
            request.close_connection = True
