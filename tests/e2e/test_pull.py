"""lithe pull, against a hub that breaks off, redirects, lies, limits, stalls and sends wrong bytes."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import harness
import hub_server as hs
import tiny_gguf
from hub_server import COMMIT, Hub, Large

BYTES = random.Random(1).randbytes(3_000_000)
BIG = Large(BYTES)
CONFIG = b'{"model_type": "llama"}'


class Pull(harness.Case):
    def setUp(self):
        self.cache = pathlib.Path(self.folder) / "hub" / self.id().split(".")[-1]

    def environment(self, hub, **more):
        return {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(self.cache), "HF_TOKEN": "", "HF_HUB_OFFLINE": "", "HF_HOME": "",
                "HF_HUB_DOWNLOAD_TIMEOUT": "1", "no_proxy": "*", **more}

    def pull(self, hub, *args, **env):
        return pathlib.Path(self.out("pull", *args, env=self.environment(hub, **env)).strip())

    def fails(self, hub, *args, code=1, **env):
        """The last line of stderr: warnings of attempts may stand before it."""
        done = self.lithe("pull", *args, env=self.environment(hub, **env))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        last = done.stderr.strip().split("\n")[-1]
        self.assertTrue(last.startswith("lithe: "), done.stderr)
        return last

    def repo(self, name="org--name"):
        return self.cache / f"models--{name}"

    def check_clean(self, name="org--name"):
        """Nothing half-written: every blob is what its name says, every link leads to one."""
        blobs = self.repo(name) / "blobs"
        for blob in blobs.iterdir():
            self.assertIn(blob.name, (hs.etag_of(blob.read_bytes()), hs.etag_of(Large(blob.read_bytes()))), blob)
        for path in (self.repo(name) / "snapshots").rglob("*"):
            if not path.is_dir():
                self.assertTrue(path.is_symlink() and not os.readlink(path).startswith("/") and path.exists(), path)
                self.assertEqual(path.resolve().parent, blobs.resolve())

    def one_file(self, *tricks, data=BIG, **kwargs):
        hub = Hub({"org/name": {"model.gguf": data}}, **kwargs)
        hub.tricks["model.gguf"] = list(tricks)
        self.addCleanup(hub.__exit__)
        return hub

    def got(self, hub, **env):
        path = self.pull(hub, "org/name", **env)
        self.assertEqual(path.read_bytes(), hub.repos["org/name"]["model.gguf"])
        self.check_clean()


class Layout(Pull):
    def test_a_model_of_safetensors(self):
        files = {"config.json": CONFIG, "model-00001-of-00002.safetensors": BIG, "model-00002-of-00002.safetensors": Large(b"2"),
                 "model.safetensors.index.json": b"{}", "tokenizer.json": b"{}", "pytorch_model.bin": Large(b"no"),
                 "onnx/model.onnx": Large(b"no"), "README.md": b"no", "consolidated.safetensors": Large(b"no")}
        with Hub({"org/name": files}) as hub:
            report = json.loads(self.out("pull", "org/name", "--json", env=self.environment(hub)))
            snapshot = self.repo() / "snapshots" / COMMIT
            self.assertEqual(report["model"], str(snapshot))
            self.assertEqual(report["files"], ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                               "model.safetensors.index.json", "tokenizer.json"])
            self.assertEqual(report["missing_bytes"], report["bytes"] - 2, "two names of one blob")
            for name in report["files"]:
                self.assertEqual((snapshot / name).read_bytes(), files[name])
            self.assertEqual((self.repo() / "refs" / "main").read_text(), COMMIT)
            self.assertEqual(os.readlink(snapshot / "config.json"), "../../blobs/" + hs.etag_of(CONFIG))
            self.check_clean()
            before = len(hub.contents())
            again = json.loads(self.out("pull", "org/name", "--json", env=self.environment(hub)))
            self.assertEqual((again["missing_bytes"], len(hub.contents())), (0, before), "nothing is fetched twice")

    def test_types_splits_patterns_and_revisions(self):
        files = {"m-Q4_K_M.gguf": Large(b"k"), "m-Q4_0.gguf": Large(b"0"), "Q8_0/m-Q8_0-00001-of-00002.gguf": Large(b"81"),
                 "Q8_0/m-Q8_0-00002-of-00002.gguf": Large(b"82"), "mmproj-m-Q8_0.gguf": Large(b"m"), "a/b/c.txt": b"deep",
                 "na\u00efve file.txt": b"n"}
        with Hub({"org/name": files}) as hub:
            self.assertEqual(self.pull(hub, "org/name:q4_0").read_bytes(), b"0")
            self.assertEqual(self.pull(hub, "org/name").name, "m-Q4_K_M.gguf")
            path = self.pull(hub, "org/name@v1.0:Q8_0")
            self.assertEqual((path.name, path.read_bytes()), ("m-Q8_0-00001-of-00002.gguf", b"81"))
            self.assertEqual((path.parent / "m-Q8_0-00002-of-00002.gguf").read_bytes(), b"82")
            self.assertEqual((self.repo() / "refs" / "v1.0").read_text(), COMMIT)
            self.assertEqual(self.pull(hub, "org/name", "--hf-file", "mmproj-m-Q8_0.gguf").read_bytes(), b"m")
            folder = self.pull(hub, "org/name", "--include", "*.txt", "--exclude", "x*", "--revision", "refs/pr/1")
            self.assertEqual((folder / "a/b/c.txt").read_bytes(), b"deep")
            self.assertEqual((folder / "na\u00efve file.txt").read_bytes(), b"n")
            self.assertEqual(os.readlink(folder / "a/b/c.txt"), "../../../../blobs/" + hs.etag_of(b"deep"))
            self.check_clean()
            self.assertIn("of type Q6_K, but Q8_0/m-Q8_0, m-Q4_0, m-Q4_K_M", self.fails(hub, "org/name:Q6_K"))
            self.assertIn("'absent.gguf'", self.fails(hub, "org/name", "--hf-file", "absent.gguf"))
            self.assertIn("--include fits none", self.fails(hub, "org/name", "--include", "*.bin"))
            self.assertIn("give one of them", self.fails(hub, "org/name:Q4_0", "--include", "*", code=2))

    def test_a_mirror_that_lists_less(self):
        files = {"m.gguf": BIG, "config.json": CONFIG, "a.txt": b"a", "b.txt": b"b", "c.txt": b"c"}
        with Hub({"org/name": files}, blobs=False) as hub:
            folder = self.pull(hub, "org/name", "--include", "*")
            self.assertEqual(folder.name, "m.gguf", "the one model of them")
            self.assertEqual(sorted(p.name for p in folder.parent.iterdir()), sorted(files))
            self.assertEqual(len([r for r in hub.log if "/tree/" in r.path]), 3, "all pages")
        with Hub({"org/name": files}, blobs=False) as hub:
            hub.api_tricks = [lambda h, _: h.api("org/name", "revision", "main", {}), hs.status(404)]
            shutil.rmtree(self.cache)
            self.assertEqual(self.pull(hub, "org/name").read_bytes(), BIG)
            self.assertTrue([r for r in hub.log if r.method == "HEAD"], "its headers told")
            self.check_clean()

    def test_models_are_found_in_the_cache(self):
        model = pathlib.Path(self.alphabet()).read_bytes()
        with Hub({"org/name": {"m-Q8_0.gguf": Large(model), "m-F16.gguf": Large(b"x")}}) as hub:
            env = self.environment(hub)
            line = self.refused(1, "run", "-m", "org/name:Q8_0", "-p", "a", env=env)
            self.assertIn("fetch it with `lithe pull org/name:Q8_0`", line)
            self.pull(hub, "org/name:Q8_0")
            self.pull(hub, "org/name:F16")
            for flag in ("-m", "-hf"):
                self.assertEqual(self.out("run", flag, "org/name:Q8_0", "--raw", "-p", "a", "-n", "2", "--temperature", "0", env=env),
                                 self.out("run", "-m", self.alphabet(), "--raw", "-p", "a", "-n", "2", "--temperature", "0"))
            requests = len(hub.log)
            offline = self.pull(hub, "org/name:Q8_0", "--offline")
            self.assertEqual(offline.read_bytes(), model)
            self.assertIn("offline: org/other is not in the cache", self.fails(hub, "org/other", HF_HUB_OFFLINE="1"))
            self.assertEqual(len(hub.log), requests, "offline asks nobody")
            os.unlink(offline.resolve())
            self.assertIn("no GGUF file of type Q8_0", self.refused(1, "run", "-m", "org/name:Q8_0", "-p", "a", env=env))


class Faults(Pull):
    def test_it_resumes_where_the_server_broke_off(self):
        hub = self.one_file(hs.break_off(1_000_000), hs.break_off(1_500_000))
        self.got(hub)
        ranges = [r.range for r in hub.contents() if r.server == "cdn"]
        self.assertEqual(ranges[0], None)
        self.assertEqual(ranges[1:], ["bytes=1000000-", "bytes=2500000-"])

    def test_a_server_without_ranges_starts_over(self):
        self.got(self.one_file(hs.break_off(1_000_000), hs.no_ranges))

    def test_a_range_that_was_not_asked_for(self):
        self.got(self.one_file(hs.break_off(1000), hs.another_range))
        shutil.rmtree(self.cache)
        self.assertIn("sends from 7", self.fails(self.one_file(hs.another_range, hs.another_range), "org/name"))

    def test_limits_and_errors_are_waited_for(self):
        hub = self.one_file(hs.status(429, Retry_After="1"), hs.status(503))
        hub.api_tricks = [hs.status(500)]
        begin = time.monotonic()
        self.got(hub)
        self.assertGreater(time.monotonic() - begin, 1.9)
        hub = self.one_file(hs.status(429, Retry_After="3600"), data=Large(b"other"))
        self.assertIn("asks for patience (3600 s)", self.fails(hub, "org/name"))

    def test_a_stall_is_a_fault(self):
        self.got(self.one_file(hs.stall(4)))

    def test_lengths_that_lie(self):
        self.got(self.one_file(hs.too_short))
        shutil.rmtree(self.cache)
        for trick, text in ((hs.too_long, "sends more than the 3000000 bytes"), (hs.promises_more, "sends 3000004 bytes")):
            self.assertIn(text, self.fails(self.one_file(trick, trick), "org/name"))
            self.assertFalse(list((self.repo() / "snapshots").iterdir()))
            self.check_incomplete()
            self.got(self.one_file(trick))
            shutil.rmtree(self.cache)

    def check_incomplete(self):
        """No blob under its name; at most something to resume."""
        self.assertFalse([p for p in (self.repo() / "blobs").iterdir() if not p.name.endswith(".incomplete")])

    def test_wrong_bytes_are_thrown_away(self):
        hub = self.one_file(hs.wrong_bytes)
        done = self.lithe("pull", "org/name", env=self.environment(hub))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("checksum"), 1, done.stderr)
        self.check_clean()
        shutil.rmtree(self.cache)
        hub = self.one_file(hs.wrong_bytes, hs.wrong_bytes)
        self.assertIn("is not what the hub lists", self.fails(hub, "org/name"))
        self.check_incomplete()
        self.assertEqual([p.stat().st_size for p in (self.repo() / "blobs").iterdir()], [0])
        shutil.rmtree(self.cache)
        small = self.one_file(hs.wrong_bytes, data=b"a small file, named by git")
        self.got(small)

    def test_a_resumed_file_is_checked_whole(self):
        hub = self.one_file()
        blobs = self.repo() / "blobs"
        blobs.mkdir(parents=True)
        (blobs / (hs.etag_of(BIG) + ".incomplete")).write_bytes(b"x" * 1000)  # of another file
        self.got(hub)
        self.assertEqual([r.range for r in hub.contents() if r.server == "cdn"], ["bytes=1000-", None])

    def test_more_than_the_whole_is_there(self):
        for size in (len(BIG), len(BIG) + 1):
            shutil.rmtree(self.cache, ignore_errors=True)
            blobs = self.repo() / "blobs"
            blobs.mkdir(parents=True)
            (blobs / (hs.etag_of(BIG) + ".incomplete")).write_bytes((BIG + b"x")[:size])
            self.got(self.one_file())

    def test_redirects(self):
        hub = self.one_file()
        hub.tricks["model.gguf"] = [hs.redirect(f"{hub.cdn_url}/{hs.etag_of(BIG)}/elsewhere")]
        self.got(hub)
        shutil.rmtree(self.cache)
        hub.tricks["model.gguf"] = [hs.redirect("file:///etc/passwd")]
        self.assertIn("is not followed", self.fails(hub, "org/name"))
        hub.tricks["model.gguf"] = [hs.redirect(f"{hub.cdn_url}/{hs.etag_of(BIG)}/model.gguf")] * 30
        self.assertIn("more than 10 redirects", self.fails(hub, "org/name"))

    def test_the_token_stays_with_the_hub(self):
        hub = self.one_file(token="hf_secret")
        self.assertIn("set HF_TOKEN", self.fails(hub, "org/name"))
        self.assertIn("set HF_TOKEN", self.fails(hub, "org/name", HF_TOKEN="hf_wrong"))
        hub.log.clear()
        self.got(hub, HF_TOKEN="hf_secret")
        for request in hub.log:
            self.assertEqual(request.token, "Bearer hf_secret" if request.server == "hub" else None, request)
        home = pathlib.Path(self.folder) / "hf_home"
        home.mkdir()
        (home / "token").write_text("hf_secret\n")
        shutil.rmtree(self.cache)
        self.got(hub, HF_HOME=str(home))

    def test_names_from_the_server_stay_inside(self):
        for name in ("../evil.gguf", "/etc/evil.gguf", "a/../evil.gguf", "a//evil.gguf", "evil\n.gguf", "a\\evil.gguf", "", "."):
            with Hub({"org/name": {name: Large(b"x")}}) as hub:
                self.assertIn("no name inside a folder", self.fails(hub, "org/name", "--include", "*"))
        self.assertFalse(self.cache.exists())

    def test_answers_that_are_none(self):
        with Hub({"org/name": {"m.gguf": BIG}}) as hub:
            for body, text in ((b"<html>", "not valid JSON"), (b"{}", "names no commit"), (b"[" * 1000, "nested"),
                               (b'{"sha":"../../x","siblings":[]}', "names no commit"),
                               (b'{"sha":"%s","siblings":[{}]}' % COMMIT.encode(), "without a name")):
                hub.api_tricks = [lambda h, _, body=body: h.answer(200, body)]
                self.assertIn(text, self.fails(hub, "org/name"))
            self.assertIn("org/absent: there is none", self.fails(hub, "org/absent"))
            self.assertIn("in this revision", self.fails(hub, "org/name@v9"))
            hub.api_tricks = [hs.status(403, X_Error_Code="GatedRepo")]
            self.assertIn("is gated", self.fails(hub, "org/name"))
            for name in ("", "a/b/c", "../x", "org/na me", "org/name:", "org/--", "org/name@../x"):
                self.fails(hub, name, code=2)
        for files, text in (({"pytorch_model.bin": BIG}, "pickles"), ({"README.md": b"x"}, "neither safetensors nor GGUF")):
            with Hub({"org/name": files}) as hub:
                self.assertIn(text, self.fails(hub, "org/name"))

    def test_nobody_is_there(self):
        hub = self.one_file()
        hub.__exit__()
        begin = time.monotonic()
        done = subprocess.Popen([harness.BIN, "pull", "org/name"], env=harness.clean_environment(**self.env, **self.environment(hub)),
                                stderr=subprocess.PIPE, text=True)
        time.sleep(0.8)
        done.send_signal(signal.SIGINT)
        _, err = done.communicate(timeout=20)
        self.assertIn("again in 0.5 s", err)
        self.assertLess(time.monotonic() - begin, 10)


class Interruptions(Pull):
    def start(self, hub):
        process = subprocess.Popen([harness.BIN, "pull", "org/name"], env=harness.clean_environment(**self.env, **self.environment(hub)),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        incomplete = self.repo() / "blobs" / (hs.etag_of(BIG) + ".incomplete")
        for _ in range(400):
            if incomplete.exists() and incomplete.stat().st_size >= 500_000:
                break
            time.sleep(0.02)
        return process, incomplete

    def resumed(self, hub, least):
        self.assertFalse((self.repo() / "refs" / "main").exists(), "the ref comes last")
        hub.log.clear()
        self.got(hub)
        begin = int(hub.contents()[-1].range.removeprefix("bytes=").rstrip("-"))
        self.assertGreaterEqual(begin, least)
        self.assertEqual(begin, self.left)

    def test_ctrl_c_leaves_something_to_resume(self):
        hub = self.one_file(hs.slowly(1_000_000))
        process, incomplete = self.start(hub)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
        self.assertEqual((process.returncode, out), (-signal.SIGINT, ""))
        self.left = incomplete.stat().st_size
        self.resumed(hub, 500_000)

    def test_kill_leaves_something_to_resume(self):
        hub = self.one_file(hs.slowly(1_000_000))
        process, incomplete = self.start(hub)
        process.kill()
        process.communicate()
        self.left = incomplete.stat().st_size
        self.resumed(hub, 500_000)

    def test_two_at_once_fetch_once(self):
        hub = self.one_file(hs.slowly(4_000_000))
        process, _ = self.start(hub)
        done = self.lithe("pull", "org/name", env=self.environment(hub))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("waiting for another process", done.stderr)
        out, _ = process.communicate(timeout=20)
        self.assertEqual(out, done.stdout)
        self.assertEqual(len([r for r in hub.contents() if r.server == "cdn"]), 1)
        self.check_clean()

    def test_a_write_that_fails_leaves_something_to_resume(self):
        hub = self.one_file()
        done = subprocess.run(["sh", "-c", 'ulimit -f 2000; exec "$0" pull org/name', harness.BIN], capture_output=True, text=True,
                              env=harness.clean_environment(**self.env, **self.environment(hub)))
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("cannot write", done.stderr)
        (incomplete,) = (self.repo() / "blobs").iterdir()
        self.left = incomplete.stat().st_size
        self.resumed(hub, 1_000_000)

    def test_a_full_disk_is_seen_before(self):
        with Hub({"org/name": {"m.gguf": BIG}}) as hub:
            body = json.dumps({"sha": COMMIT, "siblings": [{"rfilename": "m.gguf", "size": 1 << 60, "lfs": {"sha256": "0" * 64, "size": 1 << 60}}]})
            hub.api_tricks = [lambda h, _: h.answer(200, body.encode())]
            self.assertIn("are to come", self.fails(hub, "org/name"))
            self.assertFalse(hub.contents())


if __name__ == "__main__":
    harness.main()
