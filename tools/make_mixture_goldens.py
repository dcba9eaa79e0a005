#!/usr/bin/env python3
"""Makes tests/golden/NAME/ for the families of mixtures of experts.

  pip install torch transformers gguf && python3 tools/make_mixture_goldens.py tests/golden [NAME...]
As make_family_goldens.py does for the dense ones.
"""
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType as Q
from transformers import (MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)

from make_family_goldens import (SMALL, GgufModel, fresh, randomize, rope, write_golden)

FAMILIES = {
    "qwen3moe-tiny": (Qwen3MoeForCausalLM, Qwen3MoeConfig, dict(
        head_dim=16, moe_intermediate_size=24, num_local_experts=8, num_experts_per_tok=3,
        norm_topk_prob=True, num_hidden_layers=3, mlp_only_layers=[1],
        rope_parameters=rope("default", 1e6)), torch.bfloat16),
    "qwen3moe-unnormed-tiny": (Qwen3MoeForCausalLM, Qwen3MoeConfig, dict(
        head_dim=16, moe_intermediate_size=24, num_local_experts=6, num_experts_per_tok=2,
        norm_topk_prob=False, decoder_sparse_step=2, rope_parameters=rope("default", 1e6)),
        torch.float16),
    "mixtral-tiny": (MixtralForCausalLM, MixtralConfig, dict(
        num_local_experts=6, num_experts_per_tok=2, sliding_window=None,
        rope_parameters=rope("default", 1e6)), torch.bfloat16),
}


def new_model(model_class, config_class, more):
    config = config_class(**{**SMALL, **more})
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    return config, model_class(config).float().eval()


def make_family(out, name, seed):
    model_class, config_class, more, dtype = FAMILIES[name]
    _, model = new_model(model_class, config_class, more)
    randomize(model, seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.to(dtype).float())  # what the file will hold
    folder = fresh(out / name)
    # In the release's names, which the model in memory does not have.
    model.save_pretrained(folder / "checkpoint",
                          state_dict={k: v.to(dtype) for k, v in model.state_dict().items()})
    (folder / "checkpoint" / "generation_config.json").unlink(missing_ok=True)
    write_golden(folder, model, model.config.vocab_size)


def add_experts(made, short, long, experts, width):
    """Experts in three tensors; transformers has gate and up in one."""
    hidden = made.config.hidden_size
    gate = made.values(short + "ffn_gate_exps.weight", "gate", (experts, width, hidden))
    up = made.values(short + "ffn_up_exps.weight", "up", (experts, width, hidden))
    made.state[long + "mlp.experts.gate_up_proj"] = torch.cat([gate, up], dim=1)
    made.state[long + "mlp.experts.down_proj"] = made.values(
        short + "ffn_down_exps.weight", "down", (experts, hidden, width))


def make_gguf(out, name, family, types, more):
    model_class, config_class = family
    config, model = new_model(model_class, config_class, {
        **more, "tie_word_embeddings": "output" not in types,
        "rope_parameters": rope("default", 50000.0)})
    qwen = model_class is Qwen3MoeForCausalLM
    folder = fresh(out / name)
    made = GgufModel(folder, "qwen3moe" if qwen else "llama", config, types,
                     np.random.default_rng(77))
    made.writer.add_expert_count(config.num_local_experts)
    made.writer.add_expert_used_count(config.num_experts_per_tok)
    width = config.moe_intermediate_size if qwen else config.intermediate_size
    dim = config.head_dim or config.hidden_size // config.num_attention_heads
    if qwen:
        made.writer.add_key_length(dim)
        made.writer.add_value_length(dim)
        made.writer.add_expert_feed_forward_length(width)
    for layer in range(config.num_hidden_layers):
        short, long = f"blk.{layer}.", f"model.layers.{layer}."
        made.attention(short, long, dim, not qwen)
        if qwen:
            made.norm(short + "attn_q_norm.weight", long + "self_attn.q_norm.weight", dim)
            made.norm(short + "attn_k_norm.weight", long + "self_attn.k_norm.weight", dim)
        made.matrix(short + "ffn_gate_inp.weight", long + "mlp.gate.weight", "router",
                    config.num_local_experts, config.hidden_size)
        add_experts(made, short, long, config.num_local_experts, width)
    made.ends()
    made.finish(folder, model)


GGUFS = {
    "gguf-qwen3moe-tiny": ((Qwen3MoeForCausalLM, Qwen3MoeConfig), dict(
        embed=Q.Q8_0, q=Q.Q8_0, k=Q.Q8_0, v=Q.Q8_0, o=Q.Q4_0, router=Q.F32, gate=Q.F16, up=Q.BF16,
        down=Q.MXFP4, output=Q.Q8_0), dict(
            hidden_size=64, head_dim=32, moe_intermediate_size=32, num_local_experts=6,
            num_experts_per_tok=2, norm_topk_prob=True)),
    "gguf-mixtral-tiny": ((MixtralForCausalLM, MixtralConfig), dict(
        embed=Q.Q8_0, q=Q.Q4_K, k=Q.Q4_K, v=Q.Q6_K, o=Q.Q4_K, router=Q.F32, gate=Q.Q2_K,
        up=Q.IQ4_XS, down=Q.Q3_K), dict(
            hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_local_experts=3,
            num_experts_per_tok=2, sliding_window=None)),
}


def main(out, wanted):
    out = Path(out)
    for seed, name in enumerate(FAMILIES):
        if not wanted or name in wanted:
            make_family(out, name, 2000 + seed)
    for name, golden in GGUFS.items():
        if not wanted or name in wanted:
            make_gguf(out, name, *golden)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
