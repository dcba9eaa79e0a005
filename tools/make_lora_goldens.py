#!/usr/bin/env python3
"""Makes tests/golden/lora/NAME/: adapters as Hugging Face's peft writes them.

  pip install torch transformers peft && python3 tools/make_lora_goldens.py tests/golden
Each is an adapter of random weights for one of the checkpoints beside it, and the logits of some
tokens that transformers computes once peft has merged the adapter into the weights.
"""
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

EVERYTHING = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ATTENTION = EVERYTHING[:4]

# Name: checkpoint, configuration, type of the adapter's weights.
ADAPTERS = {
    "llama-plain": ("llama-tiny", dict(r=4, lora_alpha=8, target_modules=EVERYTHING),
                    torch.float32),
    "llama-patterns": ("llama-tiny", dict(
        r=4, lora_alpha=6, use_rslora=True, target_modules=["q_proj", "v_proj", "down_proj"],
        rank_pattern={"layers.0.self_attn.q_proj": 2, "down_proj": 24},
        alpha_pattern={"v_proj": 3, "model.layers.1.mlp.down_proj": 16}), torch.float16),
    "mistral-mlp": ("mistral-tiny", dict(r=8, lora_alpha=8, target_modules=EVERYTHING[4:],
                                         layers_to_transform=[1]), torch.bfloat16),
    "qwen2-attention": ("qwen2-tiny", dict(r=3, lora_alpha=6, target_modules=ATTENTION),
                        torch.bfloat16),
    "qwen3-everything": ("qwen3-tiny", dict(r=16, lora_alpha=16, target_modules="all-linear"),
                         torch.bfloat16),
    "qwen3moe-attention": ("qwen3moe-tiny", dict(r=4, lora_alpha=4, target_modules=ATTENTION),
                           torch.float32),
}


def randomize(model, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if "lora_" not in name:
                continue
            noise = torch.randn(weight.shape, generator=generator) / weight.shape[-1] ** 0.5
            weight.copy_(noise.to(dtype).float())  # what the file will hold


def make(golden, name, seed):
    checkpoint, options, dtype = ADAPTERS[name]
    base = AutoModelForCausalLM.from_pretrained(golden / checkpoint / "checkpoint",
                                                dtype=torch.float32, attn_implementation="eager")
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **options)).eval()
    randomize(model, seed, dtype)
    folder = golden / "lora" / name
    shutil.rmtree(folder, ignore_errors=True)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    model.save_pretrained(folder)
    for parameter in model.parameters():
        parameter.data = parameter.data.float()
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = checkpoint
    config["target_modules"] = (sorted(config["target_modules"])
                                if isinstance(config["target_modules"], list)
                                else config["target_modules"])
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
    # The base's own weights went through the file's type, too: begin again from the checkpoint.
    again = AutoModelForCausalLM.from_pretrained(golden / checkpoint / "checkpoint",
                                                 dtype=torch.float32, attn_implementation="eager")
    merged = get_peft_model(again, LoraConfig(task_type="CAUSAL_LM", **options)).eval()
    adapter = {k: v for k, v in model.state_dict().items() if "lora_" in k}
    merged.load_state_dict(adapter, strict=False)
    merged = merged.merge_and_unload()
    tokens = [int(t) for t in np.random.default_rng(seed).integers(3, 80, 24)]
    with torch.no_grad():
        logits = merged(torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()
    logits.astype("<f4").tofile(folder / "logits.bin")
    (folder / "golden.json").write_text(json.dumps(dict(base=checkpoint, tokens=tokens)) + "\n")


def main(golden):
    for seed, name in enumerate(ADAPTERS):
        make(Path(golden), name, 500 + seed)


if __name__ == "__main__":
    main(sys.argv[1])
