"""Runs the lithe binary as a user would. LITHE_BIN names it."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import tiny_gguf

BIN = os.environ["LITHE_BIN"]


def clean_environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("LITHE_") or k == "LITHE_ISA"}
    env.update(more)
    return env


class Case(unittest.TestCase):
    """A folder per class, tiny models made on demand."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lithe-e2e-"))
        cls.env = {"HOME": str(cls.folder / "home"), "XDG_CACHE_HOME": "", "XDG_STATE_HOME": ""}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def model(cls, name, make, *args, **kwargs):
        path = cls.folder / f"{name}.gguf"
        if not path.exists():
            make(path, *args, **kwargs)
        return str(path)

    @classmethod
    def alphabet(cls):
        return cls.model("alphabet", tiny_gguf.chain, tiny_gguf.alphabet())

    @classmethod
    def random(cls):
        return cls.model("random", tiny_gguf.random_model)

    def lithe(self, *args, stdin="", env=None, timeout=120):
        return subprocess.run([BIN, *map(str, args)], input=stdin, capture_output=True, text=True, timeout=timeout,
                              env=clean_environment(**{**self.env, **(env or {})}))

    def out(self, *args, **kwargs):
        """stdout of a run that must succeed."""
        done = self.lithe(*args, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def json(self, *args, **kwargs):
        return json.loads(self.out(*args, **kwargs))

    def refused(self, code, *args, **kwargs):
        """stderr of a run that must fail with `code`."""
        done = self.lithe(*args, **kwargs)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, f"one line, not: {done.stderr}")
        self.assertTrue(done.stderr.startswith("lithe: "), done.stderr)
        return done.stderr


def default_model():
    """The real model, where it is present: LITHE_MODEL, else the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.environ.get("LITHE_MODEL") or f"{cache}/lithe/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    return path if os.path.exists(path) else None


main = unittest.main
