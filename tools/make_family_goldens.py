#!/usr/bin/env python3
"""Makes tests/golden/NAME/ for the families that Hugging Face's transformers computes.

  pip install torch transformers gguf && python3 tools/make_family_goldens.py tests/golden
Each is a tiny checkpoint of random weights, and what transformers makes of some tokens: logits of all
positions, the hidden state after each layer at the last position, greedy tokens. The GGUF ones hold
the same kind of model in GGUF's names, order of heads and types of blocks; transformers computes
them from the weights that the gguf package decodes.
"""
import json
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Q
from gguf.constants import GGML_QUANT_SIZES
from safetensors.torch import save_file
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

from make_quant_goldens import HALVES

SMALL = dict(vocab_size=80, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             bos_token_id=1, eos_token_id=2, rms_norm_eps=1e-5)


def rope(kind, theta=10000.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


FAMILIES = {
    "llama-tiny": (LlamaForCausalLM, LlamaConfig, dict(
        tie_word_embeddings=True, rope_parameters=rope("default", 100000.0)), torch.bfloat16),
    "llama3-tiny": (LlamaForCausalLM, LlamaConfig, dict(
        head_dim=16, rope_parameters=rope("llama3", 500.0, factor=8.0, low_freq_factor=1.0,
                                          high_freq_factor=4.0,
                                          original_max_position_embeddings=32)), torch.float16),
    "llama-linear-tiny": (LlamaForCausalLM, LlamaConfig, dict(
        attention_bias=True, rope_parameters=rope("linear", factor=4.0)), torch.bfloat16),
    "llama-yarn-tiny": (LlamaForCausalLM, LlamaConfig, dict(
        head_dim=16, rope_parameters=rope("yarn", factor=8.0,
                                          original_max_position_embeddings=32)), torch.bfloat16),
    "mistral-tiny": (MistralForCausalLM, MistralConfig, dict(
        sliding_window=None, rope_parameters=rope("default")), torch.bfloat16),
    "qwen2-tiny": (Qwen2ForCausalLM, Qwen2Config, dict(
        tie_word_embeddings=True, rope_parameters=rope("default", 1e6)), torch.bfloat16),
    "qwen3-tiny": (Qwen3ForCausalLM, Qwen3Config, dict(
        head_dim=16, rope_parameters=rope("default", 1e6)), torch.bfloat16),
}


def randomize(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=generator)
            if "norm" in name:
                weight.copy_(1 + 0.2 * noise)
            elif name.endswith("bias"):
                weight.copy_(0.3 * noise)
            elif "embed" in name:
                weight.copy_(noise)
            else:
                weight.copy_(noise * 1.5 / weight.shape[-1] ** 0.5)


def watch_routers(model):
    """Ids that the routers pick from now on, by layer, and the hooks."""
    picks, hooks = {}, []
    for index, layer in enumerate(model.model.layers):
        for module in layer.modules():
            if module.__class__.__name__.lower().endswith("topkrouter"):
                hooks.append(module.register_forward_hook(
                    lambda _m, _i, out, at=index: picks.__setitem__(at, out[2].tolist())))
    return picks, hooks


def run_one_by_one(model, tokens):
    """[positions, vocabulary] logits of tokens that go through one after the other."""
    cache, logits = None, []
    for token in tokens:
        out = model(torch.tensor([[token]]), past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        logits.append(out.logits[0])
    return torch.cat(logits)


def compute(model, tokens, one_by_one=False):
    """[positions, vocabulary] logits, [layers, hidden] of the last position, the routers' picks,
    greedy tokens."""
    def run(ids):
        if one_by_one:
            return run_one_by_one(model, ids)
        return model(torch.tensor([ids]), use_cache=False).logits[0]

    states = []
    picks, routers = watch_routers(model)
    hooks = [layer.register_forward_hook(
        lambda _m, _i, out: states.append((out[0] if isinstance(out, tuple) else out)[0, -1]))
        for layer in model.model.layers]
    with torch.no_grad():
        logits = run(tokens).float()
        hidden = torch.stack(states[-len(model.model.layers):])
        for hook in hooks + routers:
            hook.remove()
        greedy, ids = [], list(tokens)
        for _ in range(12):
            ids.append(int(run(ids)[-1].argmax()))
            greedy.append(ids[-1])
    routes = [dict(layer=layer, ids=ids) for layer, ids in sorted(picks.items())]
    return logits.numpy(), hidden.float().numpy(), routes, greedy


def write_golden(folder, model, vocabulary, one_by_one=False):
    prompts = []
    random = np.random.default_rng(7)
    for length in (1, 7, 40):
        tokens = [int(t) for t in random.integers(3, vocabulary, length)]
        logits, hidden, routes, greedy = compute(model, tokens, one_by_one)
        logits.astype("<f4").tofile(folder / f"len{length}.logits.bin")
        hidden.astype("<f4").tofile(folder / f"len{length}.hidden.bin")
        prompts.append(dict(name=f"len{length}", tokens=tokens,
                            logits=dict(file=f"len{length}.logits.bin"),
                            hidden_last=dict(file=f"len{length}.hidden.bin"),
                            routes=routes,
                            greedy=greedy))
    (folder / "golden.json").write_text(json.dumps(dict(prompts=prompts)) + "\n")


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "checkpoint").mkdir(parents=True)
    return folder


def make_family(out, name, seed):
    model_class, config_class, more, dtype = FAMILIES[name]
    config = config_class(**{**SMALL, **more})
    config._attn_implementation = "eager"
    model = model_class(config).float().eval()
    randomize(model, seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.to(dtype).float())  # what the file will hold
    folder = fresh(out / name)
    tensors = {k: v.to(dtype).contiguous() for k, v in model.state_dict().items()
               if not (config.tie_word_embeddings and k == "lm_head.weight")}
    save_file(tensors, folder / "checkpoint" / "model.safetensors")
    config.save_pretrained(folder / "checkpoint")
    write_golden(folder, model, config.vocab_size)


# GGUF

def random_blocks(kind, rows, columns, random):
    """Random blocks that decode to numbers of the size of a trained model's weights."""
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
    for at in HALVES[kind]:
        blocks[:, at:at + 2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    if kind == Q.MXFP4:
        blocks[:, 0] = 120
    values = gguf.quants.dequantize(blocks, kind).astype(np.float32)
    # One scale for all of a tensor, so that its weights are of the size 1.5 / sqrt(columns).
    factor = 1.5 / columns ** 0.5 / values.std()
    for at in HALVES[kind]:
        blocks[:, at:at + 2] = np.frombuffer(np.float16(0.01 * factor).tobytes(), np.uint8)
    blocks = blocks.reshape(rows, columns // elements * size)
    return blocks, gguf.quants.dequantize(blocks, kind).astype(np.float32).reshape(rows, columns)


def from_gguf_order(weight, heads):
    """Undoes the converter's reordering of llama's query and key rows."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


class GgufModel:
    """A GGUF file of random weights in the making, and the state of transformers' model from them."""

    def __init__(self, folder, architecture, config, types, random, **options):
        self.types, self.random, self.state, self.config = types, random, {}, config
        self.writer = writer = gguf.GGUFWriter(folder / "checkpoint" / "model.gguf", architecture,
                                               **options)
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_block_count(config.num_hidden_layers)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        writer.add_eos_token_id(2)

    def values(self, gguf_name, key, shape):
        """Adds a tensor of random weights; what they decode to."""
        kind, columns = self.types[key], shape[-1]
        rows = int(np.prod(shape[:-1]))
        if kind in (Q.F32, Q.F16, Q.BF16):
            values = self.random.normal(0, 1.5 / columns ** 0.5, (rows, columns)).astype(np.float32)
            stored = gguf.quants.quantize(values, kind)
            values = gguf.quants.dequantize(stored, kind).astype(np.float32)
        else:
            stored, values = random_blocks(kind, rows, columns, self.random)
        stored = stored.reshape(*shape[:-1], -1)
        self.writer.add_tensor(gguf_name, stored, raw_dtype=kind)
        return torch.from_numpy(values.reshape(shape))

    def matrix(self, gguf_name, hf_name, key, rows, columns, heads=0):
        values = self.values(gguf_name, key, (rows, columns))
        if heads:
            values = torch.from_numpy(from_gguf_order(values.numpy(), heads))
        self.state[hf_name] = values

    def vector(self, gguf_name, hf_name, values):
        values = values.astype(np.float32)
        self.writer.add_tensor(gguf_name, values)
        self.state[hf_name] = torch.from_numpy(values)

    def norm(self, gguf_name, hf_name, size=None):
        self.vector(gguf_name, hf_name,
                    1 + 0.2 * self.random.normal(size=size or self.config.hidden_size))

    def attention(self, short, long, dim, reordered, second_norm="ffn_norm.weight"):
        config, hidden = self.config, self.config.hidden_size
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.norm(short + "attn_norm.weight", long + "input_layernorm.weight")
        self.norm(short + second_norm, long + "post_attention_layernorm.weight")
        self.matrix(short + "attn_q.weight", long + "self_attn.q_proj.weight", "q", heads * dim,
                    hidden, heads if reordered else 0)
        self.matrix(short + "attn_k.weight", long + "self_attn.k_proj.weight", "k", kv_heads * dim,
                    hidden, kv_heads if reordered else 0)
        self.matrix(short + "attn_v.weight", long + "self_attn.v_proj.weight", "v", kv_heads * dim,
                    hidden)
        self.matrix(short + "attn_output.weight", long + "self_attn.o_proj.weight", "o", hidden,
                    heads * dim)

    def ends(self):
        vocabulary, hidden = self.config.vocab_size, self.config.hidden_size
        self.matrix("token_embd.weight", "model.embed_tokens.weight", "embed", vocabulary, hidden)
        self.norm("output_norm.weight", "model.norm.weight")
        if "output" in self.types:
            self.matrix("output.weight", "lm_head.weight", "output", vocabulary, hidden)
        else:
            self.state["lm_head.weight"] = self.state["model.embed_tokens.weight"]

    def finish(self, folder, model):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        model.load_state_dict(self.state)
        write_golden(folder, model, self.config.vocab_size)


def make_gguf(out, name, types, size, parts=1):
    random = np.random.default_rng(99)
    config = LlamaConfig(**{**SMALL, **size, "tie_word_embeddings": "output" not in types,
                            "rope_parameters": rope("default", 50000.0)})
    config._attn_implementation = "eager"
    hidden, width = config.hidden_size, config.intermediate_size
    dim = hidden // config.num_attention_heads
    folder = fresh(out / name)
    made = GgufModel(folder, "llama", config, types, random,
                     **({"split_max_tensors": 6} if parts > 1 else {}))
    made.writer.add_rope_dimension_count(dim)
    for layer in range(config.num_hidden_layers):
        short, long = f"blk.{layer}.", f"model.layers.{layer}."
        made.attention(short, long, dim, True)
        made.matrix(short + "ffn_gate.weight", long + "mlp.gate_proj.weight", "gate", width, hidden)
        made.matrix(short + "ffn_up.weight", long + "mlp.up_proj.weight", "up", width, hidden)
        made.matrix(short + "ffn_down.weight", long + "mlp.down_proj.weight", "down", hidden, width)
    made.ends()
    made.finish(folder, LlamaForCausalLM(config).float().eval())


def main(out):
    out = Path(out)
    for seed, name in enumerate(FAMILIES):
        make_family(out, name, 1000 + seed)
    small = dict(hidden_size=64, intermediate_size=96)
    make_gguf(out, "gguf-plain-tiny", dict(embed=Q.F16, q=Q.F32, k=Q.BF16, v=Q.F16, o=Q.F32,
                                           gate=Q.F16, up=Q.BF16, down=Q.F32, output=Q.F16), small,
              parts=4)
    make_gguf(out, "gguf-blocks-tiny", dict(embed=Q.Q8_0, q=Q.Q4_0, k=Q.Q4_1, v=Q.Q5_0, o=Q.Q5_1,
                                            gate=Q.IQ4_NL, up=Q.MXFP4, down=Q.Q8_0), small)
    wide = dict(hidden_size=256, intermediate_size=256, num_hidden_layers=1)
    make_gguf(out, "gguf-super-tiny", dict(embed=Q.Q6_K, q=Q.Q4_K, k=Q.Q6_K, v=Q.Q5_K, o=Q.Q3_K,
                                           gate=Q.Q2_K, up=Q.IQ4_XS, down=Q.Q4_K), wide)


if __name__ == "__main__":
    main(sys.argv[1])
