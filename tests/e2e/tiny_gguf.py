"""Tiny models as GGUF files, from the standard library alone.

chain(): an automaton. Embeddings are one-hot, attention and feed-forward are zero, and the head says which token
follows which, so a test knows every answer beforehand.
random_model(): a few thousand random weights, for everything whose answer is compared with itself.
"""
import random
import struct

F32, BYTE_LEVEL = 0, 256
UINT32, FLOAT32, BOOL, STRING, ARRAY, INT32 = 4, 6, 7, 8, 9, 5

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
ALTERNATING = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{{ '<|im_start|>' + m['content'] + '<|im_end|>' }}{% endfor %}"
)


def byte_alphabet():
    """GPT-2's written form of each byte."""
    printable = set(range(33, 127)) | set(range(161, 173)) | set(range(174, 256))
    written, extra = [], 256
    for byte in range(256):
        if byte in printable:
            written.append(chr(byte))
        else:
            written.append(chr(extra))
            extra += 1
    return written


# ids: 0..255 bytes, then merges, then control tokens
MERGES = ["t h", "th e", "i n", "D E", "a n"]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>"]


class Vocabulary:
    """Byte-level BPE."""

    def __init__(self, control=CONTROL, end="<|im_end|>"):
        self.tokens = byte_alphabet() + [m.replace(" ", "") for m in MERGES] + control
        self.types = [1] * (256 + len(MERGES)) + [3] * len(control)
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.end = self.ids[end]

    def __len__(self):
        return len(self.tokens)

    def keys(self):
        return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": self.tokens,
                "tokenizer.ggml.token_type": self.types, "tokenizer.ggml.merges": MERGES,
                "tokenizer.ggml.bos_token_id": self.ids["<s>"], "tokenizer.ggml.eos_token_id": self.end,
                "tokenizer.ggml.add_bos_token": False}


class SentencePiece:
    """Scores, and a token for each byte: what no piece spells falls back to them."""
    control = ["<s>", "<|im_start|>", "<|im_end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
    letters = ["\u2581", "i", "h", "e", "t", "th", "the", "\u2581the"]

    def __init__(self, pieces=(), end="<|im_end|>"):
        words = self.letters + list(pieces)
        self.tokens = ["<unk>"] + self.control + [f"<0x{byte:02X}>" for byte in range(256)] + words
        self.types = [2] + [3] * len(self.control) + [6] * 256 + [1] * len(words)
        self.scores = [0.0] * (len(self.tokens) - len(words)) + [float(i - 100) for i in range(len(words))]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.end = self.ids[end]

    def __len__(self):
        return len(self.tokens)

    def spell(self, text):
        """Ids of a text: pieces where there are some for a character, else bytes."""
        return [id for c in text for id in
                ([self.ids[c]] if c in self.ids else [self.ids[f"<0x{byte:02X}>"] for byte in c.encode("utf-8")])]

    def keys(self):
        return {"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": self.tokens,
                "tokenizer.ggml.scores": self.scores, "tokenizer.ggml.token_type": self.types,
                "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.bos_token_id": self.ids["<s>"],
                "tokenizer.ggml.eos_token_id": self.end}


def written(text):
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _value(value):
    if isinstance(value, bool):
        return struct.pack("<IB", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + written(value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(written(v) for v in value)
    if value and isinstance(value[0], float):
        return struct.pack("<IIQ", ARRAY, FLOAT32, len(value)) + struct.pack(f"<{len(value)}f", *value)
    return struct.pack("<IIQ", ARRAY, INT32, len(value)) + struct.pack(f"<{len(value)}i", *value)


def write_gguf(path, metadata, tensors):
    """tensors: [(name, dims in GGUF order, flat list of floats)]."""
    out = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        out += written(key) + _value(value)
    offset, data = 0, b""
    for name, dims, values in tensors:
        count = 1
        for dim in dims:
            count *= dim
        assert count == len(values), name
        out += written(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, F32, len(data))
        data += struct.pack(f"<{count}f", *values)
        data += b"\0" * (-len(data) % 32)
    out += b"\0" * (-len(out) % 32)
    with open(path, "wb") as file:
        file.write(out + data)


def metadata(vocab, hidden, layers, heads, kv_heads, ffn, context, template=TEMPLATE, **more):
    meta = {
        "general.architecture": "llama", "general.name": "tiny", "general.alignment": 32,
        "llama.block_count": layers, "llama.context_length": context, "llama.embedding_length": hidden,
        "llama.feed_forward_length": ffn, "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads, "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.vocab_size": len(vocab),
        **vocab.keys(),
    }
    if template:
        meta["tokenizer.chat_template"] = template
    meta.update(more)
    return {k: v for k, v in meta.items() if v is not None}


def layer_tensors(i, hidden, heads, kv_heads, head_dim, ffn, fill):
    q, kv = heads * head_dim, kv_heads * head_dim
    name = f"blk.{i}."
    ones = [1.0] * hidden
    return [
        (name + "attn_norm.weight", [hidden], ones), (name + "attn_q.weight", [hidden, q], fill(hidden * q)),
        (name + "attn_k.weight", [hidden, kv], fill(hidden * kv)),
        (name + "attn_v.weight", [hidden, kv], fill(hidden * kv)),
        (name + "attn_output.weight", [q, hidden], fill(q * hidden)), (name + "ffn_norm.weight", [hidden], ones),
        (name + "ffn_gate.weight", [hidden, ffn], fill(hidden * ffn)),
        (name + "ffn_up.weight", [hidden, ffn], fill(hidden * ffn)),
        (name + "ffn_down.weight", [ffn, hidden], fill(ffn * hidden)),
    ]


def vocabulary_alone(path, vocab, template=None, **meta):
    """A file without tensors."""
    write_gguf(path, metadata(vocab, 64, 2, 4, 2, 96, 512, template, **meta), [])


def chain(path, follow, template=TEMPLATE, context=256, padded_rows=0, missing_rows=0, drop_head=False, vocab=None, **meta):
    """follow: {token's text, or id: next one}; what is not named goes to the vocabulary's end."""
    vocab = vocab or Vocabulary()
    rows = len(vocab) + padded_rows - missing_rows
    hidden = (len(vocab) + 31) // 32 * 32
    token = lambda t: t if isinstance(t, int) else vocab.ids[t]
    end = vocab.end
    head = [0.0] * (rows * hidden)
    successor = {token(a): token(b) for a, b in follow.items()}
    for t in range(len(vocab)):
        head[min(successor.get(t, end), rows - 1) * hidden + t] = 1.0
    for r in range(len(vocab), rows):       # padded rows would win every time
        for t in range(hidden):
            head[r * hidden + t] = 9.0
    embedding = [0.0] * (rows * hidden)
    for r in range(min(rows, len(vocab))):
        embedding[r * hidden + r] = 1.0
    heads = hidden // 32
    tensors = [("token_embd.weight", [hidden, rows], embedding), ("output_norm.weight", [hidden], [1.0] * hidden)]
    if not drop_head:
        tensors.append(("output.weight", [hidden, rows], head))
    tensors += layer_tensors(0, hidden, heads, heads, 32, 32, lambda n: [0.0] * n)
    meta = metadata(vocab, hidden, 1, heads, heads, 32, context, template, **{**meta, "llama.vocab_size": rows})
    write_gguf(path, meta, tensors)
    return vocab


def alphabet(end="<|im_end|>"):
    """'\\n' (the end of a chat prompt) begins A, B, ... Z, then the end."""
    letters = [chr(c) for c in range(ord("A"), ord("Z") + 1)]
    follow = dict(zip(letters, letters[1:]))
    follow[10] = "A"
    follow["Z"] = end
    return follow


def sentence(text, end="<|im_end|>"):
    """A chain that says `text` after a chat prompt; no byte may occur twice."""
    data = text.encode("utf-8")
    assert len(set(data)) == len(data)
    follow = {10: data[0]}
    follow.update(zip(data, data[1:]))
    follow[data[-1]] = end
    return follow


def random_model(path, seed=1, hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, context=512, tied=False, head_dim=None,
                 scale=0.3, head=None, without=None, keep=None, **meta):
    """head: "repeated" or "different", beside what `tied` says. without: a tensor left out. keep: takes {name: values}."""
    vocab, rng = Vocabulary(), random.Random(seed)
    head_dim_used = head_dim or hidden // heads
    fill = lambda n: [rng.gauss(0, scale) for _ in range(n)]
    tensors = [("token_embd.weight", [hidden, len(vocab)], fill(hidden * len(vocab))),
               ("output_norm.weight", [hidden], [1.0] * hidden)]
    if not tied:
        tensors.append(("output.weight", [hidden, len(vocab)], fill(hidden * len(vocab))))
    for i in range(layers):
        tensors += layer_tensors(i, hidden, heads, kv_heads, head_dim_used, ffn, fill)
    if head_dim:
        meta.update({"llama.attention.key_length": head_dim, "llama.attention.value_length": head_dim,
                     "llama.rope.dimension_count": head_dim})
    if head:
        values = tensors[0][2]
        tensors.append(("output.weight", tensors[0][1], values if head == "repeated" else [-v for v in values]))
    tensors = [t for t in tensors if t[0] != without]
    if keep is not None:
        keep.update({name: values for name, _, values in tensors})
    write_gguf(path, metadata(vocab, hidden, layers, heads, kv_heads, ffn, context, **meta), tensors)
    return vocab
