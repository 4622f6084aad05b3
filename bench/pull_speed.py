#!/usr/bin/env python3
"""`lithe pull` beside curl: one large file from a server on this machine, by turns; best of each, and peak memory.

    bench/pull_speed.py build/release/apps/lithe/lithe [--gb 1] [--repeats 3] [--folder DIR]

Both write to the same folder. lithe also computes the SHA-256 and syncs the file to the disk; --curl-sync has curl's
file synced too.
"""
import argparse
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        if self.path.startswith("/api"):
            entry = {"rfilename": "m.gguf", "size": server.size, "lfs": {"sha256": server.sha256, "size": server.size}}
            body = json.dumps({"sha": COMMIT, "siblings": [entry]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(server.size))
        self.end_headers()
        self.wfile.flush()
        with open(server.file, "rb") as file:
            self.connection.sendfile(file)


def make_file(path, size):
    """Noise, repeated: its content costs nobody anything."""
    digest, block = hashlib.sha256(), os.urandom(1 << 20)
    with open(path, "wb") as file:
        for _ in range(size >> 20):
            file.write(block)
            digest.update(block)
    return digest.hexdigest()


def timed(command, env=None):
    """Seconds, the peak resident memory in MB, and seconds of CPU."""
    begin, peak = time.monotonic(), 0
    child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    while True:
        # Not ru_maxrss, which begins at what this interpreter had when it forked.
        found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{child.pid}/status").read_text())
        peak = max(peak, int(found[1]) if found and time.monotonic() > begin + 0.05 else 0)
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid != 0:
            break
        time.sleep(0.005)
    seconds = time.monotonic() - begin
    if status != 0:
        raise SystemExit(f"{command[0]} failed")
    return seconds, peak * 1024 / 1e6, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lithe")
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder")
    parser.add_argument("--curl-sync", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = pathlib.Path(name)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.file, server.size = folder / "source", int(args.gb * 1e9) >> 20 << 20
        server.sha256 = make_file(server.file, server.size)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        env = {**os.environ, "HF_ENDPOINT": url, "HF_HUB_CACHE": str(folder / "cache"), "HF_TOKEN": "x", "NO_PROXY": "*"}
        curl = ["curl", "-sS", "-o", str(folder / "copy"), f"{url}/org/name/resolve/{COMMIT}/m.gguf"]
        if args.curl_sync:
            curl = ["sh", "-c", " ".join(curl) + f" && sync {folder}/copy"]
        best = {}
        for _ in range(args.repeats):
            for tool, command in (("curl", curl), ("lithe", [args.lithe, "pull", "org/name"])):
                seconds, peak, cpu = timed(command, env)
                best[tool] = min(best.get(tool, (1e9,)), (seconds, peak, cpu))
                shutil.rmtree(folder / "cache", ignore_errors=True)
                (folder / "copy").unlink(missing_ok=True)
        for tool, (seconds, peak, cpu) in best.items():
            print(f"{tool:6} {server.size / seconds / 1e6:7.0f} MB/s  {seconds:6.2f} s  {cpu:5.2f} s of CPU  {peak:6.1f} MB peak")
        print(f"lithe / curl: {best['curl'][0] / best['lithe'][0]:.2f}")


main()
