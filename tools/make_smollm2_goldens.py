#!/usr/bin/env python3
"""Makes tests/golden/smollm2/golden.json: what Hugging Face's transformers makes of SmolLM2's GGUF.

  pip install torch transformers gguf tokenizers jinja2
  python3 tools/make_smollm2_goldens.py SMOLLM2.gguf tests/golden/smollm2/golden.json
The weights are those that the gguf package decodes, the tokenizer is built by the tokenizers library,
and conversations are written by the model's own template in Jinja2.
"""
import json
import sys

import gguf
import jinja2
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from make_family_goldens import from_gguf_order
from make_tokenizer_goldens import smollm2

QUESTIONS = ["What is the capital of France?", "Give me three words that rhyme with cat.",
             "Write one sentence about the sea."]
TEXTS = ["It was on a dreary night of November, that", "def fibonacci(n):\n"]
NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj"}


def load(reader):
    get = lambda key: reader.fields[key].contents()
    config = LlamaConfig(
        vocab_size=49152, hidden_size=get("llama.embedding_length"),
        intermediate_size=get("llama.feed_forward_length"),
        num_hidden_layers=get("llama.block_count"),
        num_attention_heads=get("llama.attention.head_count"),
        num_key_value_heads=get("llama.attention.head_count_kv"),
        max_position_embeddings=get("llama.context_length"),
        rms_norm_eps=get("llama.attention.layer_norm_rms_epsilon"), tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=get("llama.rope.freq_base")))
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    state = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("float32")
        parts = tensor.name.split(".")
        if parts[0] == "blk":
            if parts[2] in heads:
                values = from_gguf_order(values, heads[parts[2]])
            state[f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight"] = torch.from_numpy(values)
        elif parts[0] == "token_embd":
            state["model.embed_tokens.weight"] = state["lm_head.weight"] = torch.from_numpy(values)
        else:
            state["model.norm.weight"] = torch.from_numpy(values)
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config).float().eval()
    model.load_state_dict(state)
    return model


def main(path, out):
    reader = gguf.GGUFReader(path)
    tokenizer = smollm2(path)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    template = jinja2.Environment().from_string(
        reader.fields["tokenizer.chat_template"].contents())
    model = load(reader)
    golden = {"chats": [], "texts": []}
    prompts = [("chats", question, template.render(
        messages=[{"role": "user", "content": question}], add_generation_prompt=True))
        for question in QUESTIONS] + [("texts", text, text) for text in TEXTS]
    with torch.no_grad():
        for kind, text, rendered in prompts:
            ids = tokenizer.encode(rendered, add_special_tokens=False).ids
            all_ids, margins, first = list(ids), [], None
            while len(margins) < 32:
                logits = model(torch.tensor([all_ids])).logits[0, -1]
                if first is None:
                    first = [round(float(x), 4) for x in logits[:200]]
                top = torch.topk(logits, 2)
                margins.append(round(float(top.values[0] - top.values[1]), 4))
                all_ids.append(int(top.indices[0]))
                if all_ids[-1] == 2:
                    break
            golden[kind].append(dict(text=text, ids=ids, greedy=all_ids[len(ids):],
                                     margins=margins, first_logits=first))
    with open(out, "w") as file:
        json.dump(golden, file)
        file.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
