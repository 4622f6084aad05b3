"""The hub's cache is shared both ways: huggingface_hub reads what `lithe pull` fetched, and the other way round.

LITHE_BIN=build/release/apps/lithe/lithe PYTHONPATH=tests/e2e python tests/oracle/check_hub_cache.py
"""
import os
import pathlib
import subprocess
import tempfile

import hub_server
from hub_server import COMMIT, Hub, Large

FILES = {"config.json": b'{"model_type":"llama"}', "model.safetensors": Large(os.urandom(2_000_000)), "tokenizer.json": b"{}",
         "sub/m-Q8_0.gguf": Large(os.urandom(1_000_000))}


def lithe(*args):
    return subprocess.run([os.environ["LITHE_BIN"], "pull", *args], check=True, capture_output=True, text=True).stdout.strip()


def content_requests(hub):
    return len([r for r in hub.contents() if r.server == "cdn" or not r.path.endswith(".gguf")])


def main():
    checks = 0
    with Hub({"org/ours": FILES, "org/theirs": FILES}) as hub, tempfile.TemporaryDirectory() as cache:
        os.environ.update(HF_ENDPOINT=hub.url, HF_HUB_CACHE=cache, HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_TELEMETRY="1", NO_PROXY="*")
        import huggingface_hub as theirs

        ours = lithe("org/ours", "--include", "*")
        folder = pathlib.Path(theirs.snapshot_download("org/ours", local_files_only=True))
        assert ours.startswith(str(folder)), (folder, ours)
        before = content_requests(hub)
        assert theirs.snapshot_download("org/ours") == str(folder)
        for name, data in FILES.items():
            path = theirs.hf_hub_download("org/ours", name)
            assert path == str(folder / name) and pathlib.Path(path).read_bytes() == data, name
            checks += 1
        assert content_requests(hub) == before, "huggingface_hub fetched what lithe had fetched"

        folder = theirs.snapshot_download("org/theirs")
        before = content_requests(hub)
        assert lithe("org/theirs", "--offline") == folder
        assert lithe("org/theirs") == folder
        assert lithe("org/theirs:Q8_0") == folder + "/sub/m-Q8_0.gguf"
        assert content_requests(hub) == before, "lithe fetched what huggingface_hub had fetched"
        checks += 3

        info = theirs.scan_cache_dir()
        assert not info.warnings, info.warnings
        for repo in info.repos:
            (revision,) = repo.revisions
            assert revision.commit_hash == COMMIT and revision.refs == {"main"} and repo.nb_files == len(FILES), repo
            checks += 1
        etags = {p.name for p in pathlib.Path(cache).glob("models--org--ours/blobs/*")}
        assert etags == {p.name for p in pathlib.Path(cache).glob("models--org--theirs/blobs/*")} == set(map(hub_server.etag_of, FILES.values()))
    print(f"[ counts ] {checks} checks with huggingface_hub {theirs.__version__}")


main()
