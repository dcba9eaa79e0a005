#!/usr/bin/env python3
"""What a run at real widths does beside the limits of the machine, measured in the same minutes.

    bench/real_widths.py MODEL [PART...] [--program build/sluice] [--ram 3,6,12] [--tokens 12]
                         [--rounds 3]

MODEL is a folder as `sluice synth kimi-k3 MODEL --layers 5 --experts 128 --vocab 4096` writes it
(16 GB). Run it as root: each run is held in a memory control group of its budget and 2 %, page cache
included. Parts, each a table on stdout (default: all):

    decode    seconds per token and bytes per second, beside fio on the same files in the same
              control group, both with 8 reads at a time
    mmap      --io mmap under the same limit, the data being four times the memory
    splits    five splits of the memory between trunk and experts
    plan      predicted and measured seconds per token, on the drive and on the drive held to a rate
    prefill   expert bytes per position of a prompt, beside the union formula (docs/kimi-k3.md)
    tunables  one flag at a time beside the defaults: --read-size, --queue-depth, --ring, --threads,
              --lookahead, in rounds by turns

Needs fio. Leave the machine alone meanwhile.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile

GIB = 1 << 30
CGROUPS = pathlib.Path("/sys/fs/cgroup")
IS_V1 = (CGROUPS / "memory").is_dir()
TUNABLES = (
    ("--read-size", ("512K", "1M", "2M", "8M", "16M")),
    ("--queue-depth", ("4", "8", "16", "32", "64")),
    ("--ring", ("32M", "64M", "192M", "384M")),
    ("--threads", ("1",)),
    ("--lookahead", ("off", "4", "16")),
)


@contextlib.contextmanager
def control_group(limit=None, device=None, rate=None):
    """A function that joins a new group: `limit` bytes of memory, `rate` bytes/s from `device`."""
    groups = []

    def make(controller, name, value):
        group = (CGROUPS / controller if IS_V1 else CGROUPS) / f"sluice-bench-{os.getpid()}"
        if not group.is_dir():
            group.mkdir()
            groups.append(group)
        (group / name).write_text(value)

    if limit is not None:
        make("memory", "memory.limit_in_bytes" if IS_V1 else "memory.max", str(limit))
    if rate is not None:
        if IS_V1:
            make("blkio", "blkio.throttle.read_bps_device", f"{device} {rate}")
        else:
            make("io", "io.max", f"{device} rbps={rate}")

    def join():
        for group in groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    try:
        yield join
    finally:
        for group in groups:
            group.rmdir()


class Bench:
    def __init__(self, arguments):
        self.program = arguments.program
        self.model = pathlib.Path(arguments.model)
        self.tokens = arguments.tokens
        self.rounds = arguments.rounds
        self.budgets = [float(each) for each in arguments.ram.split(",")]
        self.files = [str(p) for p in self.model.glob("*.safetensors") if p.stat().st_size > GIB]

    def device(self):
        """Of the model's drive, the whole disk: MAJOR:MINOR."""
        source = subprocess.run(["findmnt", "-no", "MAJ:MIN", "-T", self.model], check=True,
                                capture_output=True, text=True).stdout.strip()
        return source

    def fio(self, limit=None, block="4M", depth=8, seconds=4):
        """Bytes/s of random direct reads on the model's files, within `limit` bytes of memory."""
        command = ["fio", "--name=limit", "--filename=" + ":".join(self.files), "--rw=randread",
                   f"--bs={block}", f"--iodepth={depth}", "--ioengine=io_uring", "--direct=1",
                   "--readonly", f"--runtime={seconds}", "--time_based", "--output-format=json"]
        with control_group(limit) as join:
            done = subprocess.run(command, check=True, capture_output=True, text=True,
                                  preexec_fn=join)
        return json.loads(done.stdout)["jobs"][0]["read"]["bw_bytes"]

    def sluice(self, *words, limit=None, device=None, rate=None):
        with control_group(limit, device, rate) as join:
            done = subprocess.run([self.program, *map(str, words)], preexec_fn=join,
                                  capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def decode(self, gib, *flags, tokens=None, **limits):
        ram = int(gib * GIB)
        limits.setdefault("limit", ram * 102 // 100)
        out = self.sluice("bench", "decode", self.model, "--ram", f"{ram >> 20}M", "--json", "-q",
                          "--tokens", tokens or self.tokens, *flags, **limits)
        return json.loads(out)

    def decode_part(self):
        print("\n| `--ram` | `--io` | s per token | read | fio before, after | of fio | of own random "
              "reads | drive busy | computing | s per token / the longer |"
              "\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
        for gib in self.budgets:
            # Enough tokens before that banks are full: memory that is new costs the kernel time.
            warm = 8 if gib < 8 else 40
            for way in ("pread", "uring"):
                memory = int(gib * GIB) * 102 // 100
                before = self.fio(memory)
                run = self.decode(gib, "--io", way, "--queue-depth", 8, "--warm", warm)
                limit = max(before, after := self.fio(memory))
                tokens = run["tokens"]
                computing = (run["seconds"] - run["io_wait_s"]) / tokens
                busy = run["drive_busy_s"] / tokens
                each = run["seconds"] / tokens
                print(f"| {gib:g}G | {way} | {each:.3f} | {run['bytes_per_s'] / 1e9:.2f} GB/s | "
                      f"{before / 1e9:.2f}, {after / 1e9:.2f} GB/s | "
                      f"{run['bytes_per_s'] / limit:.2f} | {run['of_drive']:.2f} | {busy:.3f} s | "
                      f"{computing:.3f} s | {each / max(busy, computing):.2f} |", flush=True)

    def mmap_part(self):
        data = sum(os.path.getsize(p) for p in self.model.glob("*.safetensors"))
        gib = data / GIB / 4
        print(f"\nData {data / GIB:.1f} GiB, memory {gib:.2f} GiB:\n\n"
              "| `--io` | s per token | GB per token |\n|---|---:|---:|")
        for way in ("mmap", "pread", "uring", "mmap"):
            run = self.decode(gib, "--io", way, "--warm", 3, tokens=4)
            print(f"| {way} | {run['seconds'] / run['tokens']:.3f} | "
                  f"{run['bytes_per_token'] / 1e9:.2f} |", flush=True)

    def splits_part(self):
        print("\n| `--ram` | trunk's share of the memory for weights | s per token | GB per token | "
              "hit rate |\n|---|---:|---:|---:|---:|")
        for gib in (4, 8):
            for percent in (100, 75, 50, 25, 0):
                run = self.decode(gib, "--trunk-percent", percent, "--warm", 12, tokens=8)
                print(f"| {gib:g}G | {percent} % | {run['seconds'] / run['tokens']:.3f} | "
                      f"{run['bytes_per_token'] / 1e9:.2f} | {run['expert_hit_rate']:.2f} |",
                      flush=True)

    def plan_part(self):
        print("\n| drive | `--ram` | predicted | measured | measured / middle |\n|---|---|---:|---:|---:|")
        for name, limits in (("as it is", {}), ("held to 800 MB/s",
                                                {"device": self.device(), "rate": 800_000_000})):
            for gib in self.budgets:
                ram = f"{int(gib * 1024)}M"
                plan = json.loads(self.sluice("plan", self.model, "--ram", ram, "--drive",
                                              self.model, "--context", 64, "--json", **limits))
                line = next(m for m in plan["memory"] if m["asked"])
                span = line["seconds_per_token"]
                run = self.decode(gib, "--ctx", 64, "--warm", 8 if gib < 8 else 40, **limits)
                measured = run["seconds"] / run["tokens"]
                middle = (span["low"] + span["high"]) / 2
                print(f"| {name} | {gib:g}G | {span['low']:.3f} to {span['high']:.3f} s | "
                      f"{measured:.3f} s | {measured / middle:.2f} |", flush=True)

    def prefill_part(self):
        experts, top_k, layers, each = self.experts()
        print("\n| positions of a chunk | expert bytes per position | union formula | ratio |"
              "\n|---:|---:|---:|---:|")
        for count in (1, 4, 16, 64, 256):
            ids = ",".join(str((i * 7919 + 11) % 4096) for i in range(count))
            with tempfile.NamedTemporaryFile() as stats:
                self.sluice("run", self.model, "--ids", ids, "--chunk", count, "--max-new", 1,
                            "--greedy", "--print-ids", "-q", "--ram", "4G", "--learn", "off",
                            "--ctx", count + 1, "--stats-json", stats.name)
                read = json.load(stats)["bytes_read_experts"]
            union = layers * each * experts * (1 - (1 - top_k / experts) ** count)
            print(f"| {count} | {read / count / 1e6:.1f} MB | {union / count / 1e6:.1f} MB | "
                  f"{read / union:.3f} |", flush=True)

    def tunables_part(self):
        trials = [()]
        for flag, values in TUNABLES:
            trials += [(flag, value) for value in values]
        for gib in self.budgets:
            runs = {trial: [] for trial in trials}
            for _ in range(self.rounds):
                for trial in trials:
                    runs[trial].append(self.decode(gib, *trial, "--learn", "off", "--warm", 8))
            usual = sorted(run["seconds"] for run in runs[()])[self.rounds // 2]
            print(f"\n{gib:g}G, {self.rounds} rounds of {self.tokens} tokens, median:\n\n"
                  "| | s per token | of the defaults' | least, most | read |\n"
                  "|---|---:|---:|---:|---:|")
            for trial, mine in runs.items():
                mine.sort(key=lambda run: run["seconds"])
                each = [run["seconds"] / run["tokens"] for run in mine]
                middle = mine[self.rounds // 2]
                print(f"| {' '.join(trial) or 'defaults'} | {each[self.rounds // 2]:.3f} | "
                      f"{middle['seconds'] / usual:.2f} | {each[0]:.3f}, {each[-1]:.3f} | "
                      f"{middle['bytes_per_s'] / 1e9:.2f} GB/s |", flush=True)

    def experts(self):
        config = json.loads((self.model / "config.json").read_text())
        config = config.get("text_config", config)
        blocks = json.loads(self.sluice("info", self.model, "--json"))["blocks"]
        mine = [block for block in blocks if block["kind"] == "expert"]
        layers = len({block["layer"] for block in mine})
        per_layer = len(mine) // layers
        return (per_layer, config["num_experts_per_token"], layers,
                mine[0]["bytes"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("decode", "mmap", "splits", "plan", "prefill", "tunables")
    parser.add_argument("model")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    parser.add_argument("--program", default="build/sluice")
    parser.add_argument("--ram", default="3,6,12", help="budgets in GiB")
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3, help="of the part tunables; default: 3")
    arguments = parser.parse_args()
    for part in arguments.parts or parts:
        if part not in parts:
            parser.error(f"no part is called {part}: {', '.join(parts)}")
    bench = Bench(arguments)
    for part in arguments.parts or parts:
        getattr(bench, part + "_part")()


if __name__ == "__main__":
    main()
