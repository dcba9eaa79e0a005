#!/usr/bin/env python3
"""Makes tests/golden/tokenizers/: small tokenizers and the ids that Hugging Face's library gives.

  pip install tokenizers gguf && python3 tools/make_tokenizer_goldens.py FOLDER [SMOLLM2.gguf]
FOLDER/text.txt is what they are trained on and what is encoded. With SmolLM2's GGUF file its ids
are made too: its tokens and merges, in Hugging Face's tokenizer.
"""
import json
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def by_regex(expression):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(expression), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


KINDS = {
    "gpt2": (pre_tokenizers.ByteLevel(add_prefix_space=False), None, False),
    "smollm": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                        pre_tokenizers.ByteLevel(add_prefix_space=False)]), None,
               False),
    "llama3": (by_regex(WORDS + r"\p{N}{1,3}" + REST), None, True),
    "qwen2": (by_regex(WORDS + r"\p{N}" + REST), normalizers.NFC(), False),
}


def train(kind, text):
    pre, normalizer, ignore_merges = KINDS[kind]
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=700, show_progress=False, special_tokens=["<|start|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if kind == "llama3":
        tokenizer.post_processor = TemplateProcessing(
            single="<|start|> $A", special_tokens=[("<|start|>", 0)])
    return tokenizer


def smollm2(path):
    import gguf
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = KINDS["smollm"][0]
    return tokenizer


def main(folder, model=None):
    folder = Path(folder)
    text = (folder / "text.txt").read_text("utf-8")
    ids = json.loads((folder / "ids.json").read_text()) if (folder / "ids.json").exists() else {}
    for kind in KINDS:
        tokenizer = train(kind, text)
        tokenizer.save(str(folder / f"{kind}.json"), pretty=False)
        ids[kind] = tokenizer.encode(text, add_special_tokens=False).ids
    if model:
        ids["smollm2"] = smollm2(model).encode(text, add_special_tokens=False).ids
    (folder / "ids.json").write_text(json.dumps(ids, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
