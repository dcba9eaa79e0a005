#!/usr/bin/env python3
"""Holds Sluice against llama.cpp: the same tokens, the same perplexity, and the speed of both.

  bench/llama_cpp.py LLAMA_CPP COMMAND MODEL.gguf ...
LLAMA_CPP: a source tree of llama.cpp in which the target `llama` was built into build/; for the same
tokens and the same perplexity with -DGGML_BLAS=ON, as it rounds activations to 8 bits otherwise. The
program that asks it (llama_cpp_reference.cc) is compiled here, into a folder that goes away again.
Commands:
  greedy MODEL              five prompts, 48 tokens each, token by token
  perplexity TEXT MODEL...  in windows of 256 tokens
  decode MODEL              all weights in memory, three times by turns
  streamed MODEL            at half the file's memory, both in a control group; as root
  quantize MODEL TYPE OUT   MODEL in another type of llama.cpp's (a number: 7 is Q8_0)
Options: --sluice PROGRAM (build/sluice), --threads N (2), --tokens N (48)
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROMPTS = ["The capital of France is", "def fibonacci(n):\n",
           "It was on a dreary night of November, that", "Water boils at a temperature of",
           "Once upon a time there was a king who"]
NEAR_TIE = 1e-2


def output_of(command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def compile_reference(source, folder):
    program = folder / "reference"
    libraries = source / "build/bin"
    output_of(["c++", "-O2", "-std=c++20", f"-I{source}/include", f"-I{source}/ggml/include",
               HERE / "llama_cpp_reference.cc", f"-L{libraries}", "-lllama", "-lggml", "-lggml-base",
               f"-Wl,-rpath,{libraries}", "-o", program])
    return program


class Comparison:
    def __init__(self, options, reference):
        self.sluice, self.threads, self.tokens = options.sluice, options.threads, options.tokens
        self.reference = reference

    def ask(self, model, command, number, rest, **options):
        return output_of([self.reference, model, self.threads, command, number, rest], **options)

    def ids(self, model, text):
        return output_of([self.sluice, "tokenize", model, "--", text]).strip()

    def greedy(self, model):
        for prompt in PROMPTS:
            ids = self.ids(model, prompt)
            lines = self.ask(model, "greedy", 48, ids).split("\n")[:-1]
            theirs = [int(line.split()[0]) for line in lines]
            margins = [float(line.split()[1]) for line in lines]
            ours = output_of([self.sluice, "run", model, "--ids", ids, "--greedy", "--max-new", 48,
                              "--print-ids", "--threads", self.threads, "-q"])
            ours = [int(each) for each in ours.replace(",", " ").split()]
            tie = next((i for i, m in enumerate(margins) if m < NEAR_TIE), len(margins))
            same = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b),
                        min(len(ours), len(theirs)))
            print(f"{prompt!r}: {same} of {len(ours)} tokens equal; first near-tie of llama.cpp: "
                  f"{f'token {tie}' if tie < len(margins) else 'none'}"
                  + (f"; margin where they part: {margins[same]:.4f}" if same < len(ours) else ""))

    def perplexity(self, text, *models):
        for model in models:
            ids = output_of([self.sluice, "tokenize", model, "-f", text]).strip()
            theirs = float(self.ask(model, "perplexity", 256, ids))
            ours = json.loads(output_of([
                self.sluice, "perplexity", model, "--ids", ids, "--window", 256, "--json",
                "--threads", self.threads, "-q"]))["perplexity"]
            print(f"{Path(model).name}: {ours:.4f}, llama.cpp {theirs:.4f}, "
                  f"{100 * (ours / theirs - 1):+.3f} %", flush=True)

    def our_speed(self, model, ram, **options):
        with tempfile.NamedTemporaryFile() as statistics:
            output_of([self.sluice, "run", model, "--ids", self.ids(model, PROMPTS[-1]), "--greedy",
                       "--max-new", self.tokens, "--print-ids", "--threads", self.threads, "--ram",
                       ram, "--learn", "off", "-q", "--stats-json", statistics.name], **options)
            return json.load(statistics)["decode_tokens_per_s"]

    def their_speed(self, model, **options):
        return float(self.ask(model, "decode", self.tokens, self.ids(model, PROMPTS[-1]), **options))

    def by_turns(self, ours, theirs):
        for _ in range(3):
            a, b = ours(), theirs()
            print(f"sluice {a:.2f} tokens/s, llama.cpp {b:.2f} tokens/s: {a / b:.2f} times",
                  flush=True)

    def decode(self, model):
        self.by_turns(lambda: self.our_speed(model, "1G"), lambda: self.their_speed(model))

    def streamed(self, model):
        limit = Path(model).stat().st_size // 2
        version_1 = Path("/sys/fs/cgroup/memory").is_dir()
        group = Path("/sys/fs/cgroup/memory" if version_1 else "/sys/fs/cgroup") / f"sluice-{os.getpid()}"
        group.mkdir()
        try:
            name = "memory.limit_in_bytes" if version_1 else "memory.max"
            (group / name).write_text(str(limit))
            join = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
            print(f"limit {limit >> 20} MiB")

            def drop():  # neither finds the file in the page cache
                descriptor = os.open(model, os.O_RDONLY)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(descriptor)

            def ours():
                drop()
                return self.our_speed(model, f"{(limit >> 20) - 2}M", preexec_fn=join)

            def theirs():
                drop()
                return self.their_speed(model, preexec_fn=join)
            self.by_turns(ours, theirs)
        finally:
            group.rmdir()

    def quantize(self, model, kind, out):
        self.ask(model, "quantize", kind, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_cpp", type=Path)
    parser.add_argument("command", choices=["greedy", "perplexity", "decode", "streamed", "quantize"])
    parser.add_argument("rest", nargs="+")
    parser.add_argument("--sluice", default=HERE.parent / "build/sluice")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=48)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reference = compile_reference(options.llama_cpp, Path(folder))
        getattr(Comparison(options, reference), options.command)(*options.rest)


if __name__ == "__main__":
    main()
