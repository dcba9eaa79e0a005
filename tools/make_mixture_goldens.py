#!/usr/bin/env python3
"""Makes tests/golden/NAME/ for the families of mixtures of experts.

  pip install torch transformers gguf && python3 tools/make_mixture_goldens.py tests/golden [NAME...]
As make_family_goldens.py does for the dense ones.
"""
import json
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Q
from safetensors.torch import load_file, save_file
from transformers import (DeepseekV3Config, DeepseekV3ForCausalLM, GptOssConfig, GptOssForCausalLM,
                          MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)

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


DEEPSEEK = dict(hidden_size=64, intermediate_size=96, moe_intermediate_size=32,
                num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
                n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2,
                n_shared_experts=1, first_k_dense_replace=1, kv_lora_rank=32, q_lora_rank=32,
                qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=24, num_mtp_layers=0,
                rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=32,
                                     mscale=0.7, mscale_all_dim=1.2))
GPT_OSS = dict(hidden_size=64, intermediate_size=32, num_hidden_layers=3, head_dim=16,
               num_local_experts=6, num_experts_per_tok=2, sliding_window=12,
               rope_parameters=rope("yarn", 150000.0, factor=8.0, truncate=False,
                                    original_max_position_embeddings=32))


def block_fp8(name, tensor):
    """What the release stores for a tensor, and what that decodes to."""
    if not name.endswith(("_proj.weight", "_proj_with_mqa.weight")):
        return plain(name, tensor)
    rows, columns = tensor.shape
    blocks = torch.nn.functional.pad(tensor, (0, -columns % 128, 0, -rows % 128))
    blocks = blocks.reshape(-(-rows // 128), 128, -(-columns // 128), 128)
    scales = blocks.abs().amax(dim=(1, 3)) / 448
    codes = (blocks / scales[:, None, :, None]).to(torch.float8_e4m3fn)
    values = (codes.float() * scales[:, None, :, None]).reshape(scales.shape[0] * 128, -1)
    codes = codes.reshape(scales.shape[0] * 128, -1)[:rows, :columns].contiguous()
    return {name: codes, name + "_scale_inv": scales}, values[:rows, :columns]


def int4_experts(name, tensor):
    if ".mlp.experts." not in name:
        return plain(name, tensor)
    rows, columns = tensor.shape
    groups = tensor.reshape(rows, columns // 32, 32)
    scales = (groups.abs().amax(dim=2) / 7).bfloat16()
    codes = (groups / scales.float()[:, :, None]).round().clamp(-8, 7).to(torch.int32)
    values = (codes.float() * scales.float()[:, :, None]).reshape(rows, columns)
    eights = codes.reshape(rows, columns // 8, 8) + 8
    packed = sum(eights[:, :, i] << (4 * i) for i in range(8)).to(torch.int32)
    base = name.removesuffix("weight")
    return {base + "weight_packed": packed, base + "weight_scale": scales,
            base + "weight_shape": torch.tensor([rows, columns], dtype=torch.int32)}, values


def mxfp4_experts(name, tensor):
    """The experts' matrices lie transposed in transformers' own files."""
    if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
        return plain(name, tensor)
    experts, columns, rows = tensor.shape
    random = np.random.default_rng(len(name) + rows)
    codes = torch.from_numpy(random.integers(0, 16, (experts, rows, columns // 32, 32)))
    scales = torch.from_numpy(random.integers(120, 124, (experts, rows, columns // 32)))
    table = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
    values = table[codes] * torch.exp2(scales.float() - 127)[..., None]
    blocks = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
    return {name + "_blocks": blocks, name + "_scales": scales.to(torch.uint8)}, (
        values.reshape(experts, rows, columns).transpose(1, 2).contiguous())


def plain(name, tensor):
    stored = tensor if name.endswith("e_score_correction_bias") else tensor.bfloat16()
    return {name: stored}, stored.float()


FP8 = dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic",
           weight_block_size=[128, 128])
INT4 = dict(quant_method="compressed-tensors", format="pack-quantized",
            quantization_status="compressed", kv_cache_scheme=None, global_compression_ratio=None,
            ignore=["lm_head"], config_groups=dict(group_0=dict(
                input_activations=None, output_activations=None, targets=["Linear"],
                weights=dict(actorder=None, block_structure=None, dynamic=False, group_size=32,
                             num_bits=4, observer="minmax", observer_kwargs={}, strategy="group",
                             symmetric=True, type="int"))))
# Family, what is stored, what config.json says on top.
STORED = {
    "deepseek-tiny": (DeepseekV3ForCausalLM, DeepseekV3Config, DEEPSEEK, plain, {}),
    "deepseek-fp8-tiny": (DeepseekV3ForCausalLM, DeepseekV3Config, {
        **DEEPSEEK, "hidden_size": 160, "q_lora_rank": None, "n_group": 1, "topk_group": 1,
        "norm_topk_prob": False, "rope_parameters": rope("default", 50000.0)},
        block_fp8, dict(quantization_config=FP8, num_nextn_predict_layers=1)),
    "kimi-k2-tiny": (DeepseekV3ForCausalLM, DeepseekV3Config, {
        **DEEPSEEK, "n_group": 1, "topk_group": 1}, int4_experts,
        dict(quantization_config=INT4, model_type="kimi_k2")),
    "gpt-oss-tiny": (GptOssForCausalLM, GptOssConfig, GPT_OSS, mxfp4_experts,
                     dict(quantization_config=dict(quant_method="mxfp4",
                                                   modules_to_not_convert=["lm_head"]))),
}


def make_stored(out, name, seed):
    """Transformers computes from what the stored tensors decode to."""
    model_class, config_class, more, store, told = STORED[name]
    _, model = new_model(model_class, config_class, more)
    randomize(model, seed)
    for name_of_buffer, buffer in model.named_buffers():
        if name_of_buffer.endswith("e_score_correction_bias"):
            buffer.copy_(0.2 * torch.randn(buffer.shape,
                                           generator=torch.Generator().manual_seed(seed)))
    folder = fresh(out / name)
    checkpoint = folder / "checkpoint"
    with tempfile.TemporaryDirectory() as temporary:
        model.save_pretrained(temporary)
        stored, values = {}, {}
        for tensor, data in load_file(Path(temporary) / "model.safetensors").items():
            parts, decoded = store(tensor, data)
            stored.update(parts)
            values[tensor] = decoded.contiguous()
        save_file(values, Path(temporary) / "model.safetensors", metadata={"format": "pt"})
        model = model_class.from_pretrained(temporary, attn_implementation="eager",
                                            experts_implementation="eager",
                                            dtype=torch.float32).eval()
        config = json.loads((Path(temporary) / "config.json").read_text())
    if told.get("num_nextn_predict_layers"):
        stored[f"model.layers.{config['num_hidden_layers']}.eh_proj.weight"] = torch.zeros(8, 8)
        config.pop("num_mtp_layers", None)
    config.pop("dtype", None)
    (checkpoint / "config.json").write_text(json.dumps({**config, **told}, indent=1) + "\n")
    save_file(stored, checkpoint / "model.safetensors")
    write_golden(folder, model, model.config.vocab_size)


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


def make_gguf_gpt_oss(out, name):
    config, model = new_model(GptOssForCausalLM, GptOssConfig, GPT_OSS)
    types = dict(embed=Q.Q8_0, q=Q.Q8_0, k=Q.Q8_0, v=Q.Q5_1, o=Q.Q8_0, router=Q.F32, gate=Q.MXFP4,
                 up=Q.MXFP4, down=Q.MXFP4, output=Q.Q8_0)
    folder = fresh(out / name)
    random = np.random.default_rng(55)
    made = GgufModel(folder, "gpt-oss", config, types, random)
    experts, width, hidden = config.num_local_experts, config.intermediate_size, config.hidden_size
    made.writer.add_key_length(config.head_dim)
    made.writer.add_value_length(config.head_dim)
    made.writer.add_sliding_window(config.sliding_window)
    made.writer.add_expert_count(experts)
    made.writer.add_expert_used_count(config.num_experts_per_tok)
    made.writer.add_expert_feed_forward_length(width)
    made.writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    made.writer.add_rope_scaling_factor(config.rope_parameters["factor"])
    made.writer.add_rope_scaling_orig_ctx_len(
        config.rope_parameters["original_max_position_embeddings"])

    def bias(gguf_name, hf_name, *shape):
        made.vector(gguf_name, hf_name, 0.3 * random.normal(size=shape))

    for layer in range(config.num_hidden_layers):
        short, long = f"blk.{layer}.", f"model.layers.{layer}."
        made.attention(short, long, config.head_dim, False, "post_attention_norm.weight")
        for gguf_name, hf_name in (("attn_q", "q_proj"), ("attn_k", "k_proj"), ("attn_v", "v_proj"),
                                   ("attn_output", "o_proj")):
            rows = made.state[f"{long}self_attn.{hf_name}.weight"].shape[0]
            bias(f"{short}{gguf_name}.bias", f"{long}self_attn.{hf_name}.bias", rows)
        bias(short + "attn_sinks.weight", long + "self_attn.sinks", config.num_attention_heads)
        made.matrix(short + "ffn_gate_inp.weight", long + "mlp.router.weight", "router", experts,
                    hidden)
        bias(short + "ffn_gate_inp.bias", long + "mlp.router.bias", experts)
        inner = {}
        for part in ("gate", "up"):
            inner[part] = made.values(f"{short}ffn_{part}_exps.weight", part,
                                      (experts, width, hidden))
            bias(f"{short}ffn_{part}_exps.bias", part, experts, width)
        base = long + "mlp.experts."
        # Transformers has gate and up by turns, and its matrices transposed.
        made.state[base + "gate_up_proj"] = torch.stack(
            [inner["gate"], inner["up"]], dim=2).flatten(1, 2).transpose(1, 2).contiguous()
        made.state[base + "gate_up_proj_bias"] = torch.stack(
            [made.state.pop("gate"), made.state.pop("up")], dim=2).flatten(1, 2)
        made.state[base + "down_proj"] = made.values(
            short + "ffn_down_exps.weight", "down", (experts, hidden, width)
        ).transpose(1, 2).contiguous()
        bias(short + "ffn_down_exps.bias", base + "down_proj_bias", experts, hidden)
    made.ends()
    made.finish(folder, model)


# As llama.cpp's converter writes them: heads split and heads whole.
GGUF_DEEPSEEKS = {
    "gguf-deepseek-tiny": (True, dict(
        embed=Q.Q8_0, kv_a=Q.Q8_0, q_a=Q.Q5_0, q_b=Q.Q4_1, k_b=Q.Q8_0, v_b=Q.Q4_0, o=Q.Q5_1,
        dense=Q.Q8_0, shared=Q.F16, router=Q.F32, gate=Q.Q4_0, up=Q.IQ4_NL, down=Q.Q8_0,
        output=Q.Q8_0)),
    "gguf-deepseek-whole-tiny": (False, dict(
        embed=Q.BF16, kv_a=Q.F16, q=Q.BF16, kv_b=Q.Q8_0, o=Q.F16, dense=Q.F16, shared=Q.BF16,
        router=Q.F32, gate=Q.F16, up=Q.BF16, down=Q.F16, output=Q.F32)),
}


def add_deepseek_keys(writer, config, split):
    latent, rotated = config.kv_lora_rank, config.qk_rope_head_dim
    writer.add_rope_dimension_count(rotated)
    writer.add_kv_lora_rank(latent)
    key, value = config.qk_nope_head_dim + rotated, config.v_head_dim
    writer.add_key_length(latent + rotated if split else key)
    writer.add_value_length(latent if split else value)
    if split:
        writer.add_key_length_mla(key)
        writer.add_value_length_mla(value)
    if config.q_lora_rank:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(config.rope_parameters["factor"])
    writer.add_rope_scaling_orig_ctx_len(
        config.rope_parameters["original_max_position_embeddings"])
    writer.add_rope_scaling_yarn_log_mul(0.1 * config.rope_parameters["mscale_all_dim"])
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)


def add_mla(made, short, long, split):
    config = made.config
    heads, hidden, latent = config.num_attention_heads, config.hidden_size, config.kv_lora_rank
    nope, rotated, value = config.qk_nope_head_dim, config.qk_rope_head_dim, config.v_head_dim
    made.norm(short + "attn_norm.weight", long + "input_layernorm.weight")
    made.norm(short + "ffn_norm.weight", long + "post_attention_layernorm.weight")
    attention = long + "self_attn."
    made.matrix(short + "attn_kv_a_mqa.weight", attention + "kv_a_proj_with_mqa.weight", "kv_a",
                latent + rotated, hidden)
    made.norm(short + "attn_kv_a_norm.weight", attention + "kv_a_layernorm.weight", latent)
    width, rank = heads * (nope + rotated), config.q_lora_rank
    if rank:
        made.matrix(short + "attn_q_a.weight", attention + "q_a_proj.weight", "q_a", rank, hidden)
        made.norm(short + "attn_q_a_norm.weight", attention + "q_a_layernorm.weight", rank)
        made.matrix(short + "attn_q_b.weight", attention + "q_b_proj.weight", "q_b", width, rank)
    else:
        made.matrix(short + "attn_q.weight", attention + "q_proj.weight", "q", width, hidden)
    if split:
        keys = made.values(short + "attn_k_b.weight", "k_b", (heads, latent, nope))
        values = made.values(short + "attn_v_b.weight", "v_b", (heads, value, latent))
        made.state[attention + "kv_b_proj.weight"] = torch.cat(
            [keys.transpose(1, 2), values], dim=1).reshape(-1, latent)
    else:
        made.matrix(short + "attn_kv_b.weight", attention + "kv_b_proj.weight", "kv_b",
                    heads * (nope + value), latent)
    made.matrix(short + "attn_output.weight", attention + "o_proj.weight", "o", hidden,
                heads * value)


def make_gguf_deepseek(out, name, split, types):
    config, model = new_model(DeepseekV3ForCausalLM, DeepseekV3Config, {
        **DEEPSEEK, "qk_nope_head_dim": 32 if split else 16, "v_head_dim": 32,
        "q_lora_rank": 32 if split else None, "n_shared_experts": 2,
        "rope_parameters": {**DEEPSEEK["rope_parameters"], "mscale": 1.2}})
    if split:
        config.num_key_value_heads = 1
    folder = fresh(out / name)
    random = np.random.default_rng(66)
    made = GgufModel(folder, "deepseek2", config, types, random)
    add_deepseek_keys(made.writer, config, split)
    hidden, experts, width = (config.hidden_size, config.n_routed_experts,
                              config.moe_intermediate_size)
    for layer in range(config.num_hidden_layers):
        short, long = f"blk.{layer}.", f"model.layers.{layer}."
        add_mla(made, short, long, split)
        dense = layer < config.first_k_dense_replace
        kind, place = ("", "mlp.") if dense else ("_shexp", "mlp.shared_experts.")
        key, inner = (("dense", config.intermediate_size) if dense else
                      ("shared", width * config.n_shared_experts))
        for part, rows, columns in (("gate", inner, hidden), ("up", inner, hidden),
                                    ("down", hidden, inner)):
            made.matrix(f"{short}ffn_{part}{kind}.weight", f"{long}{place}{part}_proj.weight", key,
                        rows, columns)
        if dense:
            continue
        made.matrix(short + "ffn_gate_inp.weight", long + "mlp.gate.weight", "router", experts,
                    hidden)
        made.vector(short + "exp_probs_b.bias", long + "mlp.gate.e_score_correction_bias",
                    0.2 * random.normal(size=experts))
        add_experts(made, short, long, experts, width)
    made.ends()
    made.finish(folder, model)


def main(out, wanted):
    out = Path(out)
    for seed, name in enumerate(FAMILIES):
        if not wanted or name in wanted:
            make_family(out, name, 2000 + seed)
    for seed, name in enumerate(STORED):
        if not wanted or name in wanted:
            make_stored(out, name, 3000 + seed)
    if not wanted or "gguf-gpt-oss-tiny" in wanted:
        make_gguf_gpt_oss(out, "gguf-gpt-oss-tiny")
    for name, golden in GGUF_DEEPSEEKS.items():
        if not wanted or name in wanted:
            make_gguf_deepseek(out, name, *golden)
    for name, golden in GGUFS.items():
        if not wanted or name in wanted:
            make_gguf(out, name, *golden)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
