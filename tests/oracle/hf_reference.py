"""Hugging Face tokenizers built from what a GGUF file says, family by family: the reference for ids."""
from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

CONTROL, USER_DEFINED = 3, 4
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def pre_tokenizer(pre):
    """As in the tokenizer.json of each family."""
    if pre == "gpt-2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if pre == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizer("gpt-2")])
    pattern = {"llama-bpe": LLAMA3, "qwen2": QWEN2}[pre]
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    ])


def build(pre, tokens, types, merges, rules=None):
    """rules: {written token: {"lstrip": True, ...}}."""
    tokenizer = Tokenizer(
        models.BPE({token: i for i, token in enumerate(tokens)}, [tuple(merge.split(" ")) for merge in merges],
                   ignore_merges=pre == "llama-bpe"))
    tokenizer.pre_tokenizer = pre_tokenizer(pre)
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    for token, kind in zip(tokens, types):
        if kind in (CONTROL, USER_DEFINED):
            added = AddedToken(token, special=kind == CONTROL, normalized=False, **(rules or {}).get(token, {}))
            (tokenizer.add_special_tokens if kind == CONTROL else tokenizer.add_tokens)([added])
    return tokenizer


def read_gguf(path):
    """(pre, tokens, types, merges)"""
    fields = GGUFReader(path).fields

    def strings(key):
        return [bytes(fields[key].parts[i]).decode("utf-8") for i in fields[key].data]

    types = fields["tokenizer.ggml.token_type"]
    return (fields["tokenizer.ggml.pre"].contents(), strings("tokenizer.ggml.tokens"),
            [int(types.parts[i][0]) for i in types.data], strings("tokenizer.ggml.merges"))
