import os
import pathlib
import struct

import harness
import tiny_gguf


class Files(harness.Case):
    """Model files as users meet them: cut, contradictory, odd."""

    def test_not_a_model(self):
        for name, data in (("empty", b""), ("text", b"hello"), ("magic", b"GGUF"), ("v1", struct.pack("<II", 0x46554747, 1) + b"\0" * 64)):
            path = self.folder / f"{name}.gguf"
            path.write_bytes(data)
            self.assertIn(path.name, self.refused(1, "run", "-m", path, "-p", "hi"))
        self.assertIn("not a regular file", self.refused(2, "run", "-m", self.folder, "-p", "hi"))

    def test_unused_metadata_and_missing_tensor(self):
        path = self.folder / "no-layer.gguf"
        tiny_gguf.random_model(path, layers=2, **{"llama.block_count": 3})
        self.assertRegex(self.refused(1, "run", "-m", path, "-p", "hi"), r"blk\.2\.")

    def test_pipes_and_devices_are_no_models_and_no_outputs(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.assertIn("not a regular file", self.refused(2, "run", "-m", pipe, "-p", "hi", timeout=20))  # nobody writes to it
        self.assertIn("not a regular file", self.refused(2, "convert", self.random(), pipe, "--type", "f16"))
        self.assertIn("not a regular file", self.refused(2, "convert", self.random(), "/dev/null", "--type", "f16"))
        self.assertFalse(pathlib.Path("/dev/null").is_file())

    def test_json_of_strangers(self):
        template, messages = self.folder / "x.jinja", self.folder / "deep.json"
        template.write_text("x")
        for content, says in (("[" * 100_000 + "]" * 100_000, "nests deeper"), ("[" * 100_000, "nests deeper"), ("[1", "not valid JSON")):
            messages.write_text('[{"role":"user","content":' + content + "}]")
            self.assertIn(says, self.refused(2, "template", "-m", template, "--messages", messages))
        reference = self.folder / "reference"
        reference.write_text('{"magic":1}\n')
        text = self.folder / "text"
        text.write_text("the quick brown fox " * 40)
        self.refused(1, "eval", "-m", self.random(), "-f", text, "-c", 16, "--max-chunks", 1, "--reference", reference)

    def test_a_state_file_of_something_else_stays_as_it_is(self):
        state, text = self.folder / "state", self.folder / "text"
        text.write_text("the quick brown fox " * 40)
        state.write_text("not ours\nat all\n")
        self.assertIn("another run", self.refused(2, "eval", "-m", self.random(), "-f", text, "-c", 16, "--max-chunks", 1, "--state", state))
        self.assertEqual(state.read_text(), "not ours\nat all\n")


if __name__ == "__main__":
    harness.main()
