"""A hub on this machine, with a content network on a second port, that misbehaves when told to.

    with Hub({"org/name": {"model.gguf": Large(b"...")}}) as hub: ... HF_ENDPOINT=hub.url

Each repository has one commit. `hub.tricks[name]` is a list of functions; each request for the content of that file takes
the first one off the list, which answers in its place. `hub.log` has every request.
"""
import collections
import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Request = collections.namedtuple("Request", "server method path range token")


class Large(bytes):
    """A file in the hub's large file storage: named by SHA-256 and served by the content network."""


def etag_of(data):
    if isinstance(data, Large):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", **headers):
        """headers: dashes as underscores. None leaves one out."""
        all_headers = {"Content-Length": str(len(body)), **{k.replace("_", "-"): v for k, v in headers.items()}}
        self.send_response(status)
        for name, value in all_headers.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.write(body)

    def write(self, data):
        try:
            self.wfile.write(data)
            self.wfile.flush()
        except OSError:  # the client has left
            self.close_connection = True

    def hang_up(self):
        self.close_connection = True

    def range_begin(self):
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        return int(found[1]) if found else 0

    def content(self, data, **headers):
        """As a well-behaved server: a range if one was asked for."""
        begin = self.range_begin()
        if begin == 0:
            return self.answer(200, bytes(data), **headers)
        if begin >= len(data):
            return self.answer(416, Content_Range=f"bytes */{len(data)}")
        return self.answer(206, data[begin:], Content_Range=f"bytes {begin}-{len(data) - 1}/{len(data)}", **headers)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server.hub
        hub.log.append(Request(self.server.role, self.command, self.path, self.headers.get("Range"),
                               self.headers.get("Authorization")))
        if self.server.role == "cdn":
            etag, name = self.path[1:].split("/", 1)
            return self.serve(name, hub.by_etag.get(etag))
        url = urllib.parse.urlsplit(self.path)
        parts = [urllib.parse.unquote(p) for p in url.path.strip("/").split("/")]
        if hub.api_tricks and parts[0] == "api":
            return hub.api_tricks.pop(0)(self, None)
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.answer(401, b'{"error":"Invalid username or password."}', X_Error_Code="RepoNotFound")
        if parts[0] == "api":
            return self.api("/".join(parts[2:4]), parts[4], parts[5], urllib.parse.parse_qs(url.query))
        return self.resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def api(self, repo, what, revision, query):
        hub = self.server.hub
        if repo not in hub.repos:
            return self.answer(404, b'{"error":"Repository not found"}', X_Error_Code="RepoNotFound")
        if revision not in ("main", COMMIT, "v1.0", "refs/pr/1"):
            return self.answer(404, b"{}", X_Error_Code="RevisionNotFound")
        files = hub.repos[repo]
        if what == "tree":
            names = sorted(files)
            page = int(query.get("page", ["0"])[0])
            body = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "folder"}] if page == 0 else []
            for name in names[page * 2:page * 2 + 2]:
                entry = {"type": "file", "oid": "1" * 40, "size": len(files[name]), "path": name}
                if isinstance(files[name], Large):
                    entry["lfs"] = {"oid": etag_of(files[name]), "size": len(files[name]), "pointerSize": 130}
                else:
                    entry["oid"] = etag_of(files[name])
                body.append(entry)
            more = f'<{hub.url}{self.path.split("?")[0]}?recursive=true&page={page + 1}>; rel="next"'
            return self.answer(200, json.dumps(body).encode(), Link=more if names[page * 2 + 2:] else None)
        siblings = []
        for name, data in files.items():
            entry = {"rfilename": name}
            if "blobs" in query and hub.blobs:
                entry.update(size=len(data), blobId="1" * 40 if isinstance(data, Large) else etag_of(data))
                if isinstance(data, Large):
                    entry["lfs"] = {"sha256": etag_of(data), "size": len(data), "pointerSize": 130}
            siblings.append(entry)
        return self.answer(200, json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode())

    def resolve(self, repo, revision, name):
        hub = self.server.hub
        data = hub.repos.get(repo, {}).get(name)
        if data is None or revision not in ("main", COMMIT):
            return self.answer(404, b"Entry not found", X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
        if not isinstance(data, Large):
            return self.serve(name, data, ETag=f'"{etag_of(data)}"', X_Repo_Commit=COMMIT)
        return self.answer(302, b"Found. Redirecting", Location=f"{hub.cdn_url}/{etag_of(data)}/{urllib.parse.quote(name)}",
                           X_Repo_Commit=COMMIT, X_Linked_Etag=f'"{etag_of(data)}"', X_Linked_Size=str(len(data)))

    def serve(self, name, data, **headers):
        if data is None:
            return self.answer(404)
        if self.command == "HEAD" and self.server.role == "cdn":
            return self.answer(403)  # signed for GET alone
        tricks = self.server.hub.tricks.get(urllib.parse.unquote(name), [])
        if tricks and self.command == "GET":
            return tricks.pop(0)(self, data)
        return self.content(data, **headers)


# --- tricks -------------------------------------------------------------------------------------------------------------


def break_off(count):
    """Promises all and hangs up after `count` more bytes."""
    def trick(handler, data):
        begin = handler.range_begin()
        handler.send_response(206 if begin else 200)
        if begin:
            handler.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(data) - begin))
        handler.end_headers()
        handler.write(data[begin:begin + count])
        handler.hang_up()
    return trick


def status(code, **headers):
    return lambda handler, data: handler.answer(code, b'{"error":"told to"}', **headers)


def wrong_bytes(handler, data):
    handler.content(bytes([data[0] ^ 1]) + data[1:-1] + bytes([data[-1] ^ 1]))


def no_ranges(handler, data):
    handler.answer(200, bytes(data))


def too_long(handler, data):
    """Says no length, and sends more than the listing promised."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.write(bytes(data) + b"and more" * 1000)
    handler.hang_up()


def too_short(handler, data):
    """A whole answer of half the file."""
    handler.answer(200, bytes(data)[:len(data) // 2])


def promises_more(handler, data):
    handler.answer(200, bytes(data) + b"more")


def another_range(handler, data):
    handler.answer(206, data[7:], Content_Range=f"bytes 7-{len(data) - 1}/{len(data)}")


def stall(seconds):
    def trick(handler, data):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.write(data[:len(data) // 2])
        time.sleep(seconds)
        handler.hang_up()
    return trick


def slowly(bytes_per_second):
    def trick(handler, data):
        begin = handler.range_begin()
        handler.send_response(206 if begin else 200)
        if begin:
            handler.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(data) - begin))
        handler.end_headers()
        for at in range(begin, len(data), bytes_per_second // 20):
            handler.write(data[at:at + bytes_per_second // 20])
            if handler.close_connection:
                return
            time.sleep(0.05)
    return trick


def redirect(to):
    return lambda handler, data: handler.answer(302, Location=to)


# ------------------------------------------------------------------------------------------------------------------------


class Hub:
    def __init__(self, repos, token=None, blobs=True):
        self.repos, self.token, self.blobs = repos, token, blobs
        self.tricks, self.api_tricks, self.log = {}, [], []
        self.by_etag = {etag_of(data): data for files in repos.values() for data in files.values()}
        self.servers = [self.start("hub"), self.start("cdn")]
        self.url, self.cdn_url = (f"http://127.0.0.1:{server.server_port}" for server in self.servers)

    def start(self, role):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # clients that hang up
        server.role, server.hub = role, self
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def contents(self, name=""):
        """Requests for the content of files whose path ends so."""
        return [r for r in self.log if not r.path.startswith("/api") and r.method == "GET" and r.path.endswith(name)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.shutdown()
            server.server_close()
