#!/usr/bin/env python3
"""Makes tests/golden/models: tiny random models and what Hugging Face Transformers says of them.

    python3 -m venv v && v/bin/pip install -r tests/oracle/requirements.txt
    v/bin/python tests/oracle/make_tiny_models.py [NAME ...]

Per model a folder NAME, as Transformers saves it, and beside its config.json and model.safetensors:
    ids.npy       int32[40]        a random prompt
    logits.npy    float32[40, vocab]
    greedy.npy    int32[64]        the greedy continuation, recomputed from scratch for every token

Weights are drawn wide (a standard deviation of 0.25, not the usual 0.02), so that attention is peaked and norms
matter: a wrong rotation, mask or permutation changes every logit. Seeds are chosen so that along the greedy path the
best token leads by more than GAP: equality of 64 tokens must not hang on rounding. Most are stored in bf16, which is
what the hub has, and drawn as such: nothing is rounded on the way.
"""
import json
import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "models"
PROMPT, GREEDY, GAP, DIFFERENT = 40, 64, 2e-3, 12

SIZES = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512)
COMMON = dict(attn_implementation="eager", bos_token_id=1, eos_token_id=2, pad_token_id=0)


def rope(theta, **scaling):
    return dict(rope_type=scaling.pop("rope_type", "default"), rope_theta=theta, **scaling)


def config(kind, **changes):
    settings = COMMON | SIZES | changes
    return getattr(transformers, kind + "Config")(**{key: value for key, value in settings.items() if value is not None})


def without(key, settings):
    setattr(settings, key, None)
    return settings


# name -> a function that makes the configuration
MODELS = {
    # hidden no power of two; head_dim explicit and not hidden / heads; odd feed-forward width; tied
    "llama_odd": lambda: config("Llama", vocab_size=131, hidden_size=72, num_attention_heads=3, num_key_value_heads=1,
                                head_dim=20, intermediate_size=37, tie_word_embeddings=True,
                                rope_parameters=rope(10000.0)),
    # an original context so short that the prompt passes it; untied
    "llama3_rope": lambda: config("Llama", vocab_size=160, hidden_size=42, num_attention_heads=6, head_dim=16,
                                  intermediate_size=56, tie_word_embeddings=False,
                                  rope_parameters=rope(500.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                                       high_freq_factor=4.0, original_max_position_embeddings=16)),
    "llama_linear": lambda: config("Llama", vocab_size=160, num_key_value_heads=4, intermediate_size=64,
                                   tie_word_embeddings=True,
                                   rope_parameters=rope(10000.0, rope_type="linear", factor=4.0)),
    # biases, and a frequency ramp
    "llama_yarn": lambda: config("Llama", attention_bias=True, tie_word_embeddings=False,
                                 rope_parameters=rope(10000.0, rope_type="yarn", factor=4.0,
                                                      original_max_position_embeddings=32)),
    # positions stay below the original length, where this scaling changes nothing
    "llama_dynamic": lambda: config("Llama", rope_parameters=rope(10000.0, rope_type="dynamic", factor=2.0)),
    # matrices of 8-bit floats, one scale a block of 16 x 16
    "llama_fp8": lambda: config("Llama", tie_word_embeddings=False, rope_parameters=rope(10000.0)),
    "mistral_window": lambda: config("Mistral", vocab_size=160, hidden_size=48, head_dim=12, intermediate_size=64,
                                     tie_word_embeddings=False, sliding_window=7, rope_parameters=rope(10000.0)),
    "qwen2_bias": lambda: config("Qwen2", vocab_size=128, hidden_size=64, num_key_value_heads=1, intermediate_size=64,
                                 tie_word_embeddings=True, rope_parameters=rope(1000000.0)),
    "qwen3_norm": lambda: config("Qwen3", vocab_size=160, head_dim=24, intermediate_size=64, tie_word_embeddings=True,
                                 rope_parameters=rope(1000000.0)),
    "gemma": lambda: config("Gemma", head_dim=12, num_key_value_heads=1, rope_parameters=rope(10000.0)),
    "gemma2": lambda: config("Gemma2", head_dim=12, num_hidden_layers=3, sliding_window=7, query_pre_attn_scalar=20,
                             attn_logit_softcapping=5.0, final_logit_softcapping=9.0, rope_parameters=rope(10000.0)),
    "gemma3": lambda: config("Gemma3Text", head_dim=12, num_hidden_layers=7, sliding_window=7,
                             query_pre_attn_scalar=20,
                             rope_parameters=dict(full_attention=rope(1000000.0, rope_type="linear", factor=8.0),
                                                  sliding_attention=rope(10000.0))),
    # the language model within one that sees too; the file leaves out what is usual
    "gemma3_vision": lambda: transformers.Gemma3Config(
        text_config=dict(SIZES | COMMON, head_dim=12, num_attention_heads=8, num_key_value_heads=4, num_hidden_layers=7,
                         sliding_window=7, query_pre_attn_scalar=20,
                         rope_parameters=dict(full_attention=rope(1000000.0, rope_type="linear", factor=8.0),
                                              sliding_attention=rope(10000.0))),
        vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=8,
                           patch_size=4), mm_tokens_per_image=4),
    "phi3": lambda: config("Phi3", sliding_window=9, rope_parameters=rope(10000.0)),
    # the prompt and its continuation stay below the original length
    "phi3_longrope": lambda: config("Phi3", original_max_position_embeddings=128,
                                    rope_parameters=rope(10000.0, rope_type="longrope",
                                                         short_factor=[1.0, 1.2, 1.5, 1.9],
                                                         long_factor=[2.0, 4.0, 6.0, 8.0],
                                                         original_max_position_embeddings=128)),
    "granite": lambda: config("Granite", attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.4,
                              logits_scaling=0.5, tie_word_embeddings=False, rope_parameters=rope(10000.0)),
    "olmo2": lambda: config("Olmo2", num_key_value_heads=2, rope_parameters=rope(500000.0)),
    "olmo3": lambda: config("Olmo3", num_hidden_layers=5, sliding_window=7,
                            rope_parameters=dict(full_attention=rope(20000.0, rope_type="yarn", factor=4.0,
                                                                     original_max_position_embeddings=128),
                                                 sliding_attention=rope(20000.0))),
    "smollm3": lambda: config("SmolLM3", num_hidden_layers=5, rope_parameters=rope(2000000.0)),
    "starcoder2": lambda: config("Starcoder2", sliding_window=9, norm_epsilon=1e-4, rope_parameters=rope(10000.0)),
    # one kv head; what is usual, and what the largest of them has
    "stablelm": lambda: config("StableLm", vocab_size=131, hidden_size=72, num_attention_heads=3, num_key_value_heads=1,
                               intermediate_size=37, layer_norm_eps=1e-3, rope_parameters=rope(10000.0)),
    "stablelm_parallel": lambda: config("StableLm", hidden_size=72, num_attention_heads=6, use_qkv_bias=True,
                                        qk_layernorm=True, use_parallel_residual=True,
                                        rope_parameters=rope(10000.0, partial_rotary_factor=0.5)),
    "gpt2": lambda: config("GPT2", num_key_value_heads=None, intermediate_size=None, n_embd=32, n_layer=2, n_head=4, n_positions=160),
    "gptneox": lambda: config("GPTNeoX", num_key_value_heads=None,
                                rope_parameters=rope(10000.0, partial_rotary_factor=0.5)),
    "gptneox_serial": lambda: config("GPTNeoX", num_key_value_heads=None, use_parallel_residual=False,
                                     rope_parameters=rope(10000.0, partial_rotary_factor=1.0)),
    "falcon_7b": lambda: config("Falcon", num_key_value_heads=None, multi_query=True, parallel_attn=True, new_decoder_architecture=False,
                                alibi=False, bias=False, ffn_hidden_size=48),
    "falcon_40b": lambda: config("Falcon", num_key_value_heads=None, num_kv_heads=2, new_decoder_architecture=True, alibi=False, bias=False,
                                 ffn_hidden_size=48),
    "cohere": lambda: config("Cohere", logit_scale=0.25, rope_parameters=rope(10000.0)),
    "cohere_plus": lambda: config("Cohere", logit_scale=0.25, use_qk_norm=True, rope_parameters=rope(10000.0)),
    "cohere2": lambda: config("Cohere2", logit_scale=0.25, num_hidden_layers=5, sliding_window=7,
                              rope_parameters=rope(10000.0)),
    "glm4": lambda: config("Glm4", head_dim=8, attention_bias=True,
                           rope_parameters=rope(10000.0, partial_rotary_factor=0.5)),
    "mixtral": lambda: config("Mixtral", num_local_experts=5, num_experts_per_tok=2, rope_parameters=rope(10000.0)),
    # the shared expert wider than the others; more experts than most batches use
    "qwen2_moe": lambda: config("Qwen2Moe", num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24,
                                shared_expert_intermediate_size=40, norm_topk_prob=False,
                                rope_parameters=rope(10000.0)),
    "qwen3_moe": lambda: config("Qwen3Moe", num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=12,
                                norm_topk_prob=True, rope_parameters=rope(10000.0)),
    "olmoe": lambda: config("Olmoe", num_experts=5, num_experts_per_tok=3, rope_parameters=rope(10000.0)),
    # a state narrower than a vector; two groups
    "mamba2": lambda: transformers.Mamba2Config(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_heads=4, head_dim=16,
                                                state_size=20, n_groups=2, conv_kernel=4, expand=2, chunk_size=16,
                                                tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0),
    "granite_hybrid": lambda: config("GraniteMoeHybrid", num_hidden_layers=3, num_local_experts=0, shared_intermediate_size=48,
                                     layer_types=["mamba", "attention", "mamba"], mamba_n_heads=4, mamba_d_head=16,
                                     mamba_d_state=24, mamba_n_groups=1, mamba_chunk_size=16, attention_multiplier=0.2,
                                     embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=0.5,
                                     tie_word_embeddings=False),
    "granite_hybrid_moe": lambda: config("GraniteMoeHybrid", num_hidden_layers=3, num_local_experts=5, num_experts_per_tok=2,
                                         shared_intermediate_size=40, layer_types=["mamba", "mamba", "attention"],
                                         mamba_n_heads=4, mamba_d_head=16, mamba_d_state=16, mamba_n_groups=2,
                                         mamba_chunk_size=16, mamba_d_conv=3, attention_multiplier=0.2,
                                         residual_multiplier=0.4, logits_scaling=0.5, tie_word_embeddings=False,
                                         position_embedding_type="rope", rope_parameters=rope(10000.0)),
    # all ranks odd; a query without a rank of its own
    "deepseek_v2_lite": lambda: without("q_lora_rank", config("DeepseekV2", num_hidden_layers=3, kv_lora_rank=20, qk_nope_head_dim=12,
                                       qk_rope_head_dim=8, v_head_dim=10, num_key_value_heads=4, n_routed_experts=6,
                                       n_shared_experts=2, num_experts_per_tok=2, moe_intermediate_size=24,
                                       first_k_dense_replace=1, topk_method="greedy", n_group=1, topk_group=1,
                                       routed_scaling_factor=1.5,
                                       rope_parameters=rope(1000.0, rope_type="yarn", factor=8.0, beta_fast=32.0,
                                                            beta_slow=1.0, mscale=0.707, mscale_all_dim=0.707,
                                                            original_max_position_embeddings=64))),
    "deepseek_v2": lambda: config("DeepseekV2", num_hidden_layers=3, q_lora_rank=18, kv_lora_rank=20, qk_nope_head_dim=12,
                                  qk_rope_head_dim=8, v_head_dim=10, num_key_value_heads=4, n_routed_experts=6,
                                  n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=24,
                                  first_k_dense_replace=1, topk_method="group_limited_greedy", n_group=3, topk_group=2,
                                  routed_scaling_factor=2.0, rope_parameters=rope(10000.0)),
    "deepseek_v3": lambda: config("DeepseekV3", num_hidden_layers=3, q_lora_rank=18, kv_lora_rank=20, qk_nope_head_dim=12,
                                  qk_rope_head_dim=8, v_head_dim=10, num_key_value_heads=4, n_routed_experts=8,
                                  n_shared_experts=1, num_experts_per_tok=3, moe_intermediate_size=24,
                                  first_k_dense_replace=1, n_group=4, topk_group=2, norm_topk_prob=True,
                                  routed_scaling_factor=2.0,
                                  rope_parameters=rope(1000.0, rope_type="yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0,
                                                       mscale=1.0, mscale_all_dim=1.0,
                                                       original_max_position_embeddings=64)),
    # as DeepSeek publishes it; blocks that do not divide the matrices
    "deepseek_v3_fp8": lambda: MODELS["deepseek_v3"](),
    # the first DeepSeek's mixture: llama's attention, V2's experts (see first_deepseek)
    "deepseek_moe": lambda: config("Llama", num_hidden_layers=3, n_routed_experts=6, n_shared_experts=2,
                                   num_experts_per_tok=2, moe_intermediate_size=24, first_k_dense_replace=1,
                                   moe_layer_freq=1, norm_topk_prob=False, scoring_func="softmax",
                                   tie_word_embeddings=False, rope_parameters=rope(10000.0)),
    # a window that the prompt passes; a ramp of frequencies that ends between two channels
    "gpt_oss": lambda: config("GptOss", num_local_experts=5, num_experts_per_tok=2, head_dim=16, sliding_window=12,
                              rope_parameters=rope(1000.0, rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0,
                                                   truncate=False, original_max_position_embeddings=64)),
    "gpt_oss_mxfp4": lambda: config("GptOss", num_local_experts=4, num_experts_per_tok=2, head_dim=8, hidden_size=64,
                                    intermediate_size=32, sliding_window=12, rope_parameters=rope(1000.0)),
    "granite_moe": lambda: config("GraniteMoe", num_local_experts=5, num_experts_per_tok=2, attention_multiplier=0.2,
                                  embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=0.5,
                                  tie_word_embeddings=False, rope_parameters=rope(10000.0)),
    "granite_moe_shared": lambda: config("GraniteMoeShared", num_local_experts=5, num_experts_per_tok=2,
                                         shared_intermediate_size=40, attention_multiplier=0.2,
                                         residual_multiplier=0.4, logits_scaling=0.5, tie_word_embeddings=False,
                                         rope_parameters=rope(10000.0)),
}
FAINT = {"starcoder2", "falcon_7b", "falcon_40b", "cohere", "cohere_plus", "cohere2"}
# Stored as they are in F32, for the sake of that path.
FULL = {"llama_odd", "llama_linear", "qwen3_norm", "gpt2"}


def randomise(model, seed, full, spread):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name.split(".")[-2] or ".norms." in name or ".ln_" in name:
                drawn = (0.0 if name.endswith("bias") else 1.0) + 0.3 * noise
                if type(model).__name__.startswith("Gemma"):
                    drawn = drawn - 1
            elif name.endswith(("bias", "sinks")):
                drawn = 0.5 * noise
            elif any(part in name for part in ("embed", "wte", "wpe")) and "embed_out" not in name:
                # where the head is the embedding, a strong one would repeat the last token for ever; gemma scales it up
                drawn = (0.1 if type(model).__name__.startswith("Gemma") else spread) * noise
            else:
                drawn = 0.25 * noise
            parameter.copy_(drawn if full else drawn.bfloat16().float())
        for name, buffer in model.named_buffers():  # what the choice of experts is corrected by
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator).bfloat16().float())
    model.tie_weights()


def is_fp8(name):
    return "_proj" in name and "bias" not in name


def fp8(weight, block=16):
    """e4m3 codes and the scales that lie beside them, one a block; the last blocks may be cut off."""
    rows, cols = weight.shape
    padded = torch.nn.functional.pad(weight, (0, -cols % block, 0, -rows % block))
    parts = padded.reshape(padded.shape[0] // block, block, padded.shape[1] // block, block)
    scale = parts.abs().amax(dim=(1, 3), keepdim=True) / 448
    codes = (parts / scale).to(torch.float8_e4m3fn).reshape(padded.shape)[:rows, :cols].contiguous()
    return codes, scale.reshape(parts.shape[0], parts.shape[2])


def from_fp8(codes, scale, block=16):
    rows, cols = codes.shape
    return codes.float() * scale.repeat_interleave(block, 0)[:rows].repeat_interleave(block, 1)[:, :cols]


def as_saved(name, weight):
    """A parameter's matrices under the names of the checkpoint, which keeps experts one by one."""
    if weight.dim() == 2:
        yield name, weight
        return
    base, kind = name.rsplit(".", 1)
    for expert, matrix in enumerate(weight):
        parts = zip(("gate_proj", "up_proj"), matrix.chunk(2)) if kind == "gate_up_proj" else [(kind, matrix)]
        for part, values in parts:
            yield f"{base}.{expert}.{part}.weight", values


def round_to_fp8(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if is_fp8(name):
                for _, matrix in as_saved(name, parameter):
                    matrix.copy_(from_fp8(*fp8(matrix)).bfloat16().float())


def save_fp8(folder, originals):
    tensors = load_file(folder / "model.safetensors")
    for name, weight in originals.items():
        for saved, matrix in as_saved(name, weight):
            tensors[saved], tensors[saved + "_scale_inv"] = fp8(matrix)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    settings = json.loads((folder / "config.json").read_text())
    settings["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [16, 16]}
    (folder / "config.json").write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")


def is_mxfp4(name):
    return name.endswith(("experts.gate_up_proj", "experts.down_proj"))


MXFP4_VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def mxfp4(weight):
    """Blocks, scales and values of a stack of matrices that is stored [in, out]; blocks lie along the inputs."""
    rows = weight.transpose(1, 2).contiguous()
    parts = rows.reshape(*rows.shape[:2], -1, 32)
    exponent = torch.floor(torch.log2(parts.abs().amax(dim=-1, keepdim=True))) - 2
    scale = torch.exp2(exponent)
    codes = ((parts / scale)[..., None] - MXFP4_VALUES).abs().argmin(dim=-1)
    values = (MXFP4_VALUES[codes] * scale).reshape(rows.shape).transpose(1, 2)
    blocks = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
    return blocks.contiguous(), (exponent[..., 0] + 127).to(torch.uint8).contiguous(), values


def round_to_mxfp4(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if is_mxfp4(name):
                parameter.copy_(mxfp4(parameter)[2])


def save_mxfp4(folder, originals):
    tensors = load_file(folder / "model.safetensors")
    for name, weight in originals.items():
        tensors[name + "_blocks"], tensors[name + "_scales"], _ = mxfp4(weight)
        del tensors[name]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    settings = json.loads((folder / "config.json").read_text())
    settings["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.embed_tokens"]}
    (folder / "config.json").write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")


def first_deepseek(settings):
    """Transformers has not the class that DeepSeek-MoE's own code defines; its parts are there."""
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Config, DeepseekV2Moe
    model = AutoModelForCausalLM.from_config(settings, attn_implementation="eager", dtype=torch.float32)
    names = ("hidden_size", "n_routed_experts", "n_shared_experts", "num_experts_per_tok", "moe_intermediate_size")
    experts = DeepseekV2Config(topk_method="greedy", **{name: getattr(settings, name) for name in names})
    experts._experts_implementation = "eager"
    for layer in model.model.layers[settings.first_k_dense_replace:]:
        layer.mlp = DeepseekV2Moe(experts)
    return model.eval()


def rename_first_deepseek(folder):
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if ".mlp.experts." in name]:
        for saved, matrix in as_saved(name, tensors.pop(name)):
            tensors[saved] = matrix.contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"architectures": ["DeepseekForCausalLM"], "model_type": "deepseek"}
    (folder / "config.json").write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")


def leave_out_usual(folder):
    """As the hub's files with a vision part: what the text part has from its class is not stated."""
    settings = json.loads((folder / "config.json").read_text())
    usual = transformers.Gemma3TextConfig().to_dict()
    text = settings["text_config"]
    settings["text_config"] = {key: value for key, value in text.items() if key == "model_type" or usual.get(key, ()) != value}
    (folder / "config.json").write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")


def greedy(model, prompt):
    """64 tokens without any cache, and the smallest lead of a chosen token over the next best."""
    ids, lead = prompt.tolist(), np.inf
    for _ in range(GREEDY):
        top = model(torch.tensor([ids]), use_cache=False).logits[0, -1].topk(2)
        lead = min(lead, float(top.values[0] - top.values[1]))
        ids.append(int(top.indices[0]))
    return np.array(ids[len(prompt):], dtype=np.int32), lead


def save(model, folder, full):
    """As the hub would have it: config.json and model.safetensors."""
    if folder.exists():
        shutil.rmtree(folder)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if not full:
        tensors = {name: tensor.bfloat16() for name, tensor in load_file(folder / "model.safetensors").items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def make(name):
    settings = MODELS[name]()
    for seed in range(60):
        if name == "deepseek_moe":
            model = first_deepseek(settings)
        else:
            model = AutoModelForCausalLM.from_config(settings, attn_implementation="eager", dtype=torch.float32).eval()
        randomise(model, seed, name in FULL, 0.2 if name in FAINT else 1.0)
        originals = {}
        if name.endswith("fp8"):
            originals = {key: value.clone() for key, value in model.state_dict().items() if is_fp8(key)}
            round_to_fp8(model)
        if name.endswith("mxfp4"):
            originals = {key: value.clone() for key, value in model.state_dict().items() if is_mxfp4(key)}
            round_to_mxfp4(model)
        prompt = np.random.default_rng(seed).integers(3, settings.get_text_config().vocab_size, PROMPT).astype(np.int32)
        with torch.no_grad():
            logits = model(torch.tensor(prompt[None].astype(np.int64)), use_cache=False).logits[0].numpy()
            text, lead = greedy(model, prompt)
        if lead > GAP and len(set(text.tolist())) >= DIFFERENT:
            break
    else:
        return print(f"{name}: no seed leads by more than {GAP}")
    folder = OUT / name
    save(model, folder, name in FULL)
    if name == "deepseek_moe":
        rename_first_deepseek(folder)
    if name.endswith("vision"):
        leave_out_usual(folder)
    if originals:
        (save_fp8 if name.endswith("fp8") else save_mxfp4)(folder, originals)
    np.save(folder / "ids.npy", prompt)
    np.save(folder / "logits.npy", logits.astype(np.float32))
    np.save(folder / "greedy.npy", text)
    print(f"{name}: seed {seed}, {(folder / 'model.safetensors').stat().st_size} bytes, largest logit "
          f"{np.abs(logits).max():.1f}, least lead {lead:.4f}, {len(set(text.tolist()))} different tokens", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    for wanted in sys.argv[1:] or MODELS:
        make(wanted)
