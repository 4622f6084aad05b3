"""Safetensors files and Hugging Face directories, from the standard library alone."""
import json
import struct


def safetensors(tensors, metadata=None):
    """tensors: {name: (type, shape, bytes)}"""
    header, data = {"__metadata__": metadata or {"format": "pt"}}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def read_safetensors(path):
    """The same the other way."""
    data = path.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items()}


def edit_json(path, **changes):
    """Sets members of a file's object, or of an empty one; None takes a member away."""
    object = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    object.update(changes)
    path.write_text(json.dumps({k: v for k, v in object.items() if v is not None}, ensure_ascii=False), encoding="utf-8")
