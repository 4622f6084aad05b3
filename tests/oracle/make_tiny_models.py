#!/usr/bin/env python3
"""Makes tests/golden/models: tiny random models and what Hugging Face Transformers says of them.

    python3 -m venv v && v/bin/pip install -r tests/oracle/requirements.txt
    v/bin/python tests/oracle/make_tiny_models.py [NAME ...]

Per model NAME:
    NAME.gguf          F32, GGUF conventions (llama: rows of q and k in rotary pairs)
    NAME.ids.npy       int32[40]        a random prompt
    NAME.logits.npy    float32[40, vocab]
    NAME.greedy.npy    int32[64]        the greedy continuation, recomputed from scratch for every token
    NAME.hf.json       {"tensor name": [shape]} of the checkpoint, which the weight tables must name

Weights are drawn wide (a standard deviation of 0.25, not the usual 0.02), so that attention is peaked and norms
matter: a wrong rotation, mask or permutation changes every logit. Seeds are chosen so that along the greedy path the
best token leads by more than GAP: equality of 64 tokens must not hang on rounding.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "models"
PROMPT, GREEDY, GAP = 40, 64, 2e-3

COMMON = dict(num_hidden_layers=2, vocab_size=160, max_position_embeddings=512, rms_norm_eps=1e-5,
              attn_implementation="eager", bos_token_id=1, eos_token_id=2, pad_token_id=0)


def rope(theta, **scaling):
    return dict(rope_type=scaling.pop("rope_type", "default"), rope_theta=theta, **scaling)


# name -> (GGUF architecture, configuration)
MODELS = {
    # hidden no power of two; head_dim explicit and not hidden / heads; odd feed-forward width; tied
    "llama_odd": ("llama", LlamaConfig(**COMMON | dict(vocab_size=131), hidden_size=72, num_attention_heads=3,
                                       num_key_value_heads=1, head_dim=20, intermediate_size=37,
                                       tie_word_embeddings=True, rope_parameters=rope(10000.0))),
    # llama3 scaling with an original context so short that the prompt passes it; untied
    "llama3_rope": ("llama", LlamaConfig(**COMMON, hidden_size=42, num_attention_heads=6, num_key_value_heads=2,
                                         head_dim=16, intermediate_size=56, tie_word_embeddings=False,
                                         rope_parameters=rope(500.0, rope_type="llama3", factor=8.0,
                                                              low_freq_factor=1.0, high_freq_factor=4.0,
                                                              original_max_position_embeddings=16))),
    "llama_linear": ("llama", LlamaConfig(**COMMON, hidden_size=32, num_attention_heads=4, num_key_value_heads=4,
                                          intermediate_size=64, tie_word_embeddings=True,
                                          rope_parameters=rope(10000.0, rope_type="linear", factor=4.0))),
    "mistral_window": ("llama", MistralConfig(**COMMON, hidden_size=48, num_attention_heads=4, num_key_value_heads=2,
                                              head_dim=12, intermediate_size=64, tie_word_embeddings=False,
                                              sliding_window=7, rope_parameters=rope(10000.0))),
    "qwen2_bias": ("qwen2", Qwen2Config(**COMMON | dict(vocab_size=128), hidden_size=64, num_attention_heads=4,
                                        num_key_value_heads=1, intermediate_size=64, tie_word_embeddings=True,
                                        rope_parameters=rope(1000000.0))),
    "qwen3_norm": ("qwen3", Qwen3Config(**COMMON, hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
                                        head_dim=24, intermediate_size=64, tie_word_embeddings=True,
                                        rope_parameters=rope(1000000.0))),
}

NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    if name in NAMES:
        return NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{NAMES[part]}.{kind}"


def pair_heads(weight, heads):
    """Rows i and i + d/2 of each head become neighbours: the order in which GGUF's llama files hold q and k."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(weight.shape)


def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("norm.weight"):
                parameter.copy_(1 + 0.3 * noise)
            elif name.endswith(".bias"):
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_((1.0 if "embed" in name else 0.25) * noise)
    model.tie_weights()


def greedy(model, prompt):
    """64 tokens without any cache, and the smallest lead of a chosen token over the next best."""
    ids, lead = prompt.tolist(), np.inf
    for _ in range(GREEDY):
        top = model(torch.tensor([ids])).logits[0, -1].topk(2)
        lead = min(lead, float(top.values[0] - top.values[1]))
        ids.append(int(top.indices[0]))
    return np.array(ids[len(prompt):], dtype=np.int32), lead


def write_gguf(path, architecture, config, model):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(path.stem)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if config.rope_parameters["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rope_parameters["factor"])
    if config.rope_parameters["rope_type"] == "llama3":
        plain = config.rope_parameters["rope_theta"] ** (-np.arange(0, head_dim, 2) / head_dim)
        writer.add_tensor("rope_freqs.weight",
                          (plain / model.model.rotary_emb.inv_freq.double().numpy()).astype(np.float32))
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.numpy()
        if architecture == "llama" and "q_proj" in name:
            values = pair_heads(values, config.num_attention_heads)
        if architecture == "llama" and "k_proj" in name:
            values = pair_heads(values, config.num_key_value_heads)
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(name):
    architecture, config = MODELS[name]
    for seed in range(100):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
        randomise(model, seed)
        prompt = np.random.default_rng(seed).integers(3, config.vocab_size, PROMPT).astype(np.int32)
        with torch.no_grad():
            logits = model(torch.tensor(prompt[None].astype(np.int64))).logits[0].numpy()
            text, lead = greedy(model, prompt)
        if lead > GAP and len(set(text.tolist())) > 20:
            break
    else:
        sys.exit(f"{name}: no seed leads by more than {GAP}")
    write_gguf(OUT / f"{name}.gguf", architecture, config, model)
    np.save(OUT / f"{name}.ids.npy", prompt)
    np.save(OUT / f"{name}.logits.npy", logits.astype(np.float32))
    np.save(OUT / f"{name}.greedy.npy", text)
    names = {key: list(value.shape) for key, value in model.state_dict().items()
             if not (key == "lm_head.weight" and config.tie_word_embeddings)}
    (OUT / f"{name}.hf.json").write_text(
        json.dumps({"architecture": type(model).__name__, "tensors": names}, indent=1) + "\n")
    print(f"{name}: seed {seed}, {(OUT / f'{name}.gguf').stat().st_size} bytes, largest logit "
          f"{np.abs(logits).max():.1f}, least lead {lead:.4f}, {len(set(text.tolist()))} different tokens")


if __name__ == "__main__":
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    for wanted in sys.argv[1:] or MODELS:
        make(wanted)
