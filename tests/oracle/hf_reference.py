"""Hugging Face tokenizers built from what a GGUF file says, family by family: the reference for ids."""
from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SPACE = "\u2581"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O = (TEKKEN.replace(r"\p{M}]+|[^", rf"\p{{M}}]+{CONTRACTIONS}?|[^").replace(
    r"\p{M}]*|\p{N}|", rf"\p{{M}}]*{CONTRACTIONS}?|\p{{N}}{{1,3}}|"))
HAN = r"&&[^\p{Han}]]"
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + HAN + r"*[\p{Ll}\p{Lm}\p{Lo}\p{M}" + HAN + "+" +
        CONTRACTIONS + r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + HAN + r"+[\p{Ll}\p{Lm}\p{Lo}\p{M}" + HAN +
        "*" + CONTRACTIONS + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
             r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK_CJK = "[一-龥ࠀ-一가-퟿]+"
DEEPSEEK_LETTERS = (
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ"
    "-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+")
BAILING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
           r"|\s*[\r\n]|\s+(?!\S)|\s+")
SEED = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
THOUSANDS = r"\p{Nd}{1,3}(?=(?:\p{Nd}{3})*(?!\p{Nd}))"
ASIAN_SCRIPTS = "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"
DEFAULT_PUNCTUATION = r"[\p{P}\$\+<=>\^~\|]+"


def split(*patterns, use_regex=False):
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)]


# As in the tokenizer.json of each family.
PRE_TOKENIZERS = {
    "gpt-2": split(use_regex=True),
    "mpt": split(use_regex=True),
    "smollm": [pre_tokenizers.Digits(individual_digits=True)] + split(use_regex=True),
    "llama-bpe": split(LLAMA3),
    "dbrx": split(LLAMA3),
    "qwen2": split(QWEN2),
    "stablelm2": split(QWEN2),
    "qwen35": split(QWEN35),
    "gpt-4o": split(GPT4O),
    "tekken": split(TEKKEN),
    "kimi-k2": split(KIMI),
    "deepseek-v3": split(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3),
    "deepseek-llm": [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in (
        "[\r\n]", DEEPSEEK_LETTERS, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", DEEPSEEK_CJK)] +
                    [pre_tokenizers.Digits(individual_digits=True)] + split(),
    "deepseek-coder": [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in (
        "[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK)] +
                      [pre_tokenizers.Digits(individual_digits=True)] + split(),
    "falcon": [pre_tokenizers.Punctuation("contiguous")] + split(use_regex=True) +
              [pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")],
    "bloom": split(" ?[^(\\s|[.,!?…。，、।۔،])]+"),
    "viking": split(" ?[^(\\s|[.,!?…。，、।۔،])]+", r"\p{N}"),
    "bailingmoe": split(BAILING),
    "seed-coder": split(SEED),
    "tiny_aya": split(r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O),
    "afmoe": split(THOUSANDS, ASIAN_SCRIPTS, DEEPSEEK3),
    "superbpe": split(r"\p{N}+", r"(?=(\d{3})+(?!\d))"),
    "default": split(DEFAULT_PUNCTUATION, use_regex=True),  # llama.cpp's own, for files that name none
}
for same, as_this in {"starcoder": "smollm", "refact": "smollm", "command-r": "smollm", "olmo": "mpt"}.items():
    PRE_TOKENIZERS[same] = PRE_TOKENIZERS[as_this]
NFC = {"qwen2", "mpt", "olmo", "command-r"}
IGNORE_MERGES = {"llama-bpe", "tekken"}


def pre_tokenizer(pre):
    steps = PRE_TOKENIZERS[pre]
    return steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)


def add_tokens(tokenizer, tokens, types, rules=None):
    """rules: {written token: {"lstrip": True, ...}}."""
    for token, kind in zip(tokens, types):
        if kind in (CONTROL, UNKNOWN, USER_DEFINED):
            special = kind != USER_DEFINED
            options = {"normalized": False, **(rules or {}).get(token, {})}
            added = AddedToken(token, special=special, **options)
            (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([added])


def split_merge(merge):
    at = merge.index(" ", 1)
    return merge[:at], merge[at + 1:]


def build(pre, tokens, types, merges, rules=None):
    """Byte-level BPE."""
    tokenizer = Tokenizer(
        models.BPE({token: i for i, token in enumerate(tokens)}, [split_merge(merge) for merge in merges],
                   ignore_merges=pre in IGNORE_MERGES))
    tokenizer.pre_tokenizer = pre_tokenizer(pre)
    tokenizer.decoder = decoders.ByteLevel()
    if pre in NFC:
        tokenizer.normalizer = normalizers.NFC()
    add_tokens(tokenizer, tokens, types, rules)
    return tokenizer


def merges_of_scores(tokens, types, scores):
    """As converters of SentencePiece models make them: every split of every token, best token first."""
    score = {token: value for token, kind, value in zip(tokens, types, scores) if kind == NORMAL}
    merges = []
    for order, (token, value) in enumerate(score.items()):
        for i in range(1, len(token)):
            left, right = token[:i], token[i:]
            if left in score and right in score:
                merges.append((-value, order, left, right))
    return [(left, right) for _, _, left, right in sorted(merges)]


def sentencepiece_decoder(prefix):
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if prefix else []))


def build_llama(tokens, types, scores, prefix=True, unknown="<unk>", merges=None, rules=None):
    """SentencePiece's BPE as the Llama 2 tokenizer.json has it."""
    vocabulary = {token: i for i, token in enumerate(tokens)}
    model = models.BPE(vocabulary, [split_merge(m) for m in merges] if merges else merges_of_scores(tokens, types, scores),
                       unk_token=unknown, fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    steps = [normalizers.Prepend(SPACE)] if prefix else []
    tokenizer.normalizer = normalizers.Sequence(steps + [normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = sentencepiece_decoder(prefix)
    add_tokens(tokenizer, tokens, types, rules)
    return tokenizer


def build_whitespace(vocab):
    tokens = vocab["tokens"]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, [split_merge(m) for m in vocab["merges"]],
                                     unk_token=tokens[vocab["unknown"]]))
    if vocab.get("lowercase"):
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    add_tokens(tokenizer, tokens, vocab["types"])
    return tokenizer


def build_bert(tokens, types, unknown="[UNK]"):
    written = [t if kind != NORMAL else t[1:] if t.startswith(SPACE) else "##" + t for t, kind in zip(tokens, types)]
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(written)}, unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    add_tokens(tokenizer, written, types)
    return tokenizer


def sentencepiece_model(vocab):
    """A SentencePieceProcessor of the same table: its own normalisation, which GGUF's t5 follows."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb2
    proto = pb2.ModelProto()
    for token, kind, score in zip(vocab["tokens"], vocab["types"], vocab["scores"]):
        piece = proto.pieces.add()
        piece.piece, piece.score, piece.type = token, score, kind
    unigram = vocab["model"] == "t5"
    proto.trainer_spec.model_type = pb2.TrainerSpec.UNIGRAM if unigram else pb2.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = BYTE in vocab["types"]
    proto.trainer_spec.unk_id = vocab["unknown"]
    if vocab.get("charsmap"):
        proto.normalizer_spec.precompiled_charsmap = vocab["charsmap"]
    proto.normalizer_spec.add_dummy_prefix = vocab["space_prefix"]
    proto.normalizer_spec.remove_extra_whitespaces = vocab["extra_spaces"]
    proto.normalizer_spec.escape_whitespaces = True
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(proto.SerializeToString())
    return processor


class Unigram:
    """encode_batch()'s ids: SentencePiece's own normalisation, then the best path in doubles, as Hugging Face and
    llama.cpp have it; SentencePiece itself adds in floats and so breaks ties of long repetitions otherwise."""

    def __init__(self, vocab):
        self.processor = sentencepiece_model(vocab)
        pieces = [(t if k in (NORMAL, UNKNOWN) else "\0" + t, s)
                  for t, k, s in zip(vocab["tokens"], vocab["types"], vocab["scores"])]
        self.model = Tokenizer(models.Unigram(pieces, unk_id=vocab["unknown"], byte_fallback=False))

    def ids(self, strings):
        normal = [self.processor.normalize(text) for text in strings]
        return [e.ids for e in self.model.encode_batch(normal, add_special_tokens=False)]


def read_vocabulary(path):
    """A dict of what the file says."""
    fields = GGUFReader(path).fields

    def value(key, default=None):
        return fields["tokenizer.ggml." + key].contents() if "tokenizer.ggml." + key in fields else default

    field = fields["tokenizer.ggml.tokens"]
    tokens = [bytes(field.parts[i]).decode("utf-8") for i in field.data]
    field = fields.get("tokenizer.ggml.merges")
    merges = [bytes(field.parts[i]).decode("utf-8") for i in field.data] if field else []
    charsmap = value("precompiled_charsmap")
    return {
        "architecture": fields["general.architecture"].contents(),
        "model": value("model"),
        "pre": value("pre", "default"),
        "tokens": tokens,
        "types": value("token_type", [NORMAL] * len(tokens)),
        "merges": merges,
        "scores": value("scores"),
        "charsmap": bytes(b & 255 for b in charsmap) if charsmap else None,
        "space_prefix": value("add_space_prefix", True),
        "lowercase": value("normalizer.lowercase", False),
        "extra_spaces": value("remove_extra_whitespaces", False),
        "unknown": value("unknown_token_id", {"t5": 2, "bert": 100}.get(value("model"), 0)),
    }


def build_unigram(vocab):
    """As T5's tokenizer.json: for its speed; ids on odd strings differ from SentencePiece's (see Unigram)."""
    made = Tokenizer(models.Unigram(list(zip(vocab["tokens"], vocab["scores"])), unk_id=vocab["unknown"]))
    steps = [normalizers.Precompiled(vocab["charsmap"])] if vocab["charsmap"] else []
    made.normalizer = normalizers.Sequence(steps + [normalizers.Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "always")
    return made


def build_vocabulary(vocab):
    """The reference for a file's ids: encode_batch() of what this returns."""
    tokens, types = vocab["tokens"], vocab["types"]
    if vocab["model"] == "gpt2":
        return build(vocab["pre"], tokens, types, vocab["merges"])
    if vocab["model"] == "llama":
        rules = {}
        if vocab["architecture"] == "phi3":
            rules = {token: {"rstrip": True} for token in tokens if token not in ("<unk>", "<s>", "<|endoftext|>")}
        return build_llama(tokens, types, vocab["scores"], vocab["space_prefix"], tokens[vocab["unknown"]], rules=rules)
    if vocab["model"] == "gemma4":
        return build_llama(tokens, types, None, False, tokens[vocab["unknown"]], vocab["merges"])
    if vocab["model"] == "whitespace":
        return build_whitespace(vocab)
    if vocab["model"] == "bert":
        return build_bert(tokens, types, tokens[vocab["unknown"]])
    if vocab["model"] == "t5":
        return build_unigram(vocab)
    raise ValueError(vocab["model"])


def read_gguf(path):
    """(pre, tokens, types, merges)"""
    vocab = read_vocabulary(path)
    return vocab["pre"], vocab["tokens"], vocab["types"], vocab["merges"]
