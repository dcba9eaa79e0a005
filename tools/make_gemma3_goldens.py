#!/usr/bin/env python3
"""Makes tests/golden/NAME/ for Gemma 3 and for what else looks back on a window of positions.

  pip install torch transformers gguf && python3 tools/make_gemma3_goldens.py tests/golden [NAME...]
As make_family_goldens.py does for the families without windows.
"""
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Q
from safetensors.torch import save_file
from transformers import (Gemma3Config, Gemma3ForCausalLM, Gemma3ForConditionalGeneration,
                          Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM)

from make_family_goldens import SMALL, GgufModel, fresh, randomize, rope, write_golden

GEMMA = {**SMALL, "num_hidden_layers": 6, "head_dim": 16, "query_pre_attn_scalar": 24,
         "sliding_window": 7, "tie_word_embeddings": True, "rms_norm_eps": 1e-6}
ROPES = dict(full_attention=rope("linear", 1e6, factor=8.0), sliding_attention=rope("default"))

FAMILIES = {
    "gemma3-tiny": (Gemma3ForCausalLM, Gemma3TextConfig, dict(
        GEMMA, rope_parameters=ROPES, num_hidden_layers=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    "mistral-window-tiny": (MistralForCausalLM, MistralConfig, dict(
        SMALL, sliding_window=6, rope_parameters=rope("default"))),
    "qwen2-window-tiny": (Qwen2ForCausalLM, Qwen2Config, dict(
        SMALL, use_sliding_window=True, sliding_window=5, max_window_layers=1,
        tie_word_embeddings=True, rope_parameters=rope("default", 1e6))),
    "llama-dynamic-tiny": (LlamaForCausalLM, LlamaConfig, dict(
        SMALL, max_position_embeddings=16, rope_parameters=rope("dynamic", factor=4.0))),
}


def new_model(model_class, config):
    config._attn_implementation = "eager"
    model = model_class(config).float().eval()
    return model


def round_weights(model):
    """To what the file will hold, and Gemma's embedding scale to what a bfloat16 model computes."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.to(torch.bfloat16).float())
    for module in model.modules():
        if hasattr(module, "embed_scale"):
            module.embed_scale = module.embed_scale.to(torch.bfloat16).float()


def offset_norms(model):
    """Gemma's norm weights are stored as how far they are from one."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name and "vision" not in name:
                weight.sub_(1)


def save(model, folder, tied):
    tensors = {k: v.to(torch.bfloat16).contiguous() for k, v in model.state_dict().items()
               if not (tied and k == "lm_head.weight")}
    save_file(tensors, folder / "checkpoint" / "model.safetensors")
    model.config.save_pretrained(folder / "checkpoint")


def make_family(out, name, seed):
    model_class, config_class, more = FAMILIES[name]
    model = new_model(model_class, config_class(**more))
    randomize(model, seed)
    if "gemma3" in name:
        offset_norms(model)
    round_weights(model)
    folder = fresh(out / name)
    save(model, folder, model.config.tie_word_embeddings)
    # A dynamic rotation depends on what follows unless the tokens go through one by one.
    write_golden(folder, model, model.config.vocab_size, one_by_one="dynamic" in name)


class TextOnly:
    """The text model of one that also sees, as compute() wants it."""

    def __init__(self, model):
        self.whole, self.model = model, model.model.language_model

    def __call__(self, ids, **options):
        return self.whole(input_ids=ids, **options)


def make_seeing(out, name, seed):
    """A model with a vision tower, which is left out; its configuration leaves out defaults."""
    vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                  image_size=28, patch_size=14)
    text = {**GEMMA, "rope_parameters": ROPES, "layer_types": None}
    config = Gemma3Config(text_config=Gemma3TextConfig(**text), vision_config=vision,
                          mm_tokens_per_image=4, image_token_index=79, boi_token_index=77,
                          eoi_token_index=78)
    model = new_model(Gemma3ForConditionalGeneration, config)
    randomize(model, seed)
    offset_norms(model)
    round_weights(model)
    folder = fresh(out / name)
    # In the names of the first release.
    state = {}
    for key, value in model.state_dict().items():
        key = key.removeprefix("model.")
        if key.startswith("language_model."):
            key = key.replace("language_model.", "language_model.model.", 1)
        if key != "lm_head.weight":
            state[key] = value.to(torch.bfloat16).contiguous()
    save_file(state, folder / "checkpoint" / "model.safetensors")
    config.save_pretrained(folder / "checkpoint")
    write_golden(folder, TextOnly(model), 70)


def make_gguf(out, name, types):
    config = Gemma3TextConfig(**{**GEMMA, "hidden_size": 64, "intermediate_size": 96,
                                 "query_pre_attn_scalar": 16, "rope_parameters": ROPES})
    hidden, width, dim = config.hidden_size, config.intermediate_size, config.head_dim
    folder = fresh(out / name)
    base = config.rope_parameters
    config.rope_parameters = dict(rope_theta=1e6)
    made = GgufModel(folder, "gemma3", config, types, np.random.default_rng(55))
    config.rope_parameters = base
    made.writer.add_key_length(dim)
    made.writer.add_value_length(dim)
    made.writer.add_sliding_window(config.sliding_window)
    made.writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    made.writer.add_rope_scaling_factor(8.0)
    for layer in range(config.num_hidden_layers):
        short, long = f"blk.{layer}.", f"model.layers.{layer}."
        made.attention(short, long, dim, False)
        # The converter calls the norms by what they do, and stores them whole.
        made.state[long + "pre_feedforward_layernorm.weight"] = made.state.pop(
            long + "post_attention_layernorm.weight")
        made.norm(short + "post_attention_norm.weight", long + "post_attention_layernorm.weight")
        made.norm(short + "post_ffw_norm.weight", long + "post_feedforward_layernorm.weight")
        made.norm(short + "attn_q_norm.weight", long + "self_attn.q_norm.weight", dim)
        made.norm(short + "attn_k_norm.weight", long + "self_attn.k_norm.weight", dim)
        made.matrix(short + "ffn_gate.weight", long + "mlp.gate_proj.weight", "gate", width, hidden)
        made.matrix(short + "ffn_up.weight", long + "mlp.up_proj.weight", "up", width, hidden)
        made.matrix(short + "ffn_down.weight", long + "mlp.down_proj.weight", "down", hidden, width)
    made.ends()
    for key in made.state:
        if "norm" in key:
            made.state[key] = made.state[key] - 1
    # In float64: the norm of a small attention output makes torch's float32 differ by 2e-3.
    made.finish(folder, new_model(Gemma3ForCausalLM, config).double())


def main(out, names):
    out = Path(out)
    blocks = dict(embed=Q.Q8_0, q=Q.Q4_0, k=Q.Q5_0, v=Q.Q8_0, o=Q.F16, gate=Q.Q4_1, up=Q.Q8_0,
                  down=Q.F32)
    for seed, name in enumerate(FAMILIES):
        if not names or name in names:
            make_family(out, name, 3000 + seed)
    if not names or "gemma3-seeing-tiny" in names:
        make_seeing(out, "gemma3-seeing-tiny", 3100)
    if not names or "gguf-gemma3-tiny" in names:
        make_gguf(out, "gguf-gemma3-tiny", blocks)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
