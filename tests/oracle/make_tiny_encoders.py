#!/usr/bin/env python3
"""Makes tests/golden/encoders: tiny random encoders and what Hugging Face Transformers says of them.

    v/bin/python tests/oracle/make_tiny_encoders.py [NAME ...]      (see make_tiny_models.py for v)

Per model a folder as Transformers saves it, and beside its config.json and model.safetensors:
    ids.npy      int32[37]             a random text; of a classifier its first 20 tokens are segment 0, the rest segment 1
    rows.npy     float32[37, hidden]   the last hidden state of every token
    scores.npy   float32[labels]       of classifiers: the labels' scores
"""
import pathlib
import sys

import numpy as np
import torch
import transformers

from make_tiny_models import rope, save

OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "encoders"
LENGTH, FIRST = 37, 20
SIZES = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=128)


def bert(**changes):
    return transformers.BertConfig(**SIZES | changes)


def roberta(kind=transformers.XLMRobertaConfig, pad=1, **changes):
    # positions begin after the padding's, and the table has rows for what lies before
    return kind(**SIZES | dict(max_position_embeddings=128 + 1 + pad, pad_token_id=pad, bos_token_id=1 - pad, eos_token_id=2,
                               type_vocab_size=1) | changes)


def modernbert(**changes):
    # a window that the text passes; the first and the fourth layer see all
    return transformers.ModernBertConfig(**SIZES | dict(num_hidden_layers=4, local_attention=12, pad_token_id=0, bos_token_id=1,
                                                        eos_token_id=2, cls_token_id=1, sep_token_id=2) | changes)


MODELS = {
    "bert": ("BertModel", bert),
    "bert_rank": ("BertForSequenceClassification", lambda: bert(num_labels=1)),
    "roberta": ("RobertaModel", lambda: roberta(transformers.RobertaConfig, pad=0, layer_norm_eps=1e-5)),
    "xlm_roberta": ("XLMRobertaModel", roberta),
    "xlm_roberta_rank": ("XLMRobertaForSequenceClassification", lambda: roberta(num_labels=1)),
    "modernbert": ("ModernBertModel", modernbert),
    "modernbert_rank": ("ModernBertForSequenceClassification", lambda: modernbert(num_labels=3)),
    "modernbert_mean": ("ModernBertForSequenceClassification", lambda: modernbert(num_labels=1, classifier_pooling="mean")),
    "nomic_bert": ("NomicBertModel", lambda: transformers.NomicBertConfig(**SIZES, rope_parameters=rope(1000.0))),
}


def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            norm = "norm" in name.lower().split(".")[-2]
            drawn = 1.0 + 0.3 * noise if norm and name.endswith("weight") else (1.0 if "embeddings" in name else 0.25) * noise
            parameter.copy_(drawn.bfloat16().float())


def make(name):
    kind, config = MODELS[name]
    model = getattr(transformers, kind)._from_config(config(), attn_implementation="eager", dtype=torch.float32).eval()
    randomise(model, 11 if name == "bert_rank" else 7)
    ids = np.random.default_rng(5).integers(3, 96, LENGTH).astype(np.int32)
    inputs = {"input_ids": torch.tensor(ids[None].astype(np.int64)), "attention_mask": torch.ones(1, LENGTH, dtype=torch.long)}
    if name == "bert_rank":
        inputs["token_type_ids"] = torch.tensor([[0] * FIRST + [1] * (LENGTH - FIRST)])
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True)
    rows = out.last_hidden_state if "last_hidden_state" in out else out.hidden_states[-1]
    folder = OUT / name
    save(model, folder, False)
    if "last_hidden_state" not in out:  # before the last norm in some classes
        with torch.no_grad():
            rows = model.base_model(**inputs).last_hidden_state
        np.save(folder / "scores.npy", out.logits[0].numpy().astype(np.float32))
    np.save(folder / "ids.npy", ids)
    np.save(folder / "rows.npy", rows[0].numpy().astype(np.float32))
    print(f"{name}: {(folder / 'model.safetensors').stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    for wanted in sys.argv[1:] or MODELS:
        make(wanted)
