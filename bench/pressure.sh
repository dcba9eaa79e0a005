#!/usr/bin/env bash
# What happens when another process takes memory in mid-run: a run inside a control group, and in its
# middle a process in the same group that takes HOG bytes, holds them for a while and leaves.
# Prints speed, memory and major faults before, while, after (memory fills again) and later, and
# whether the text stayed the same.
#
#   bench/pressure.sh MODEL [LIMIT [RAM [HOG [TOKENS]]]]        as root; sizes in MiB
#
# SLUICE names the program (default: build/sluice), FLAGS what else it is given. Needs python3 and the
# control group controller memory. LIMIT is 4096 unless given, RAM 3584, HOG 2048, TOKENS 48.
set -euo pipefail

source "$(dirname "$0")/common.sh"
help_if_asked "$@"
(($# >= 1)) || refuse "usage: bench/pressure.sh MODEL [LIMIT [RAM [HOG [TOKENS]]]]"
need_root
need python3
[ -e "$1" ] || refuse "$1: there is no such model"
model=$1
limit=${2:-4096} ram=${3:-3584} hog=${4:-2048} tokens=${5:-48}
here=$(cd "$(dirname "$0")/.." && pwd)
sluice=${SLUICE:-$here/build/sluice}
need_program "$sluice"
work=$(mktemp -d)

if [[ -d /sys/fs/cgroup/memory ]]; then
  group=/sys/fs/cgroup/memory/sluice-pressure-$$
  limit_file=memory.limit_in_bytes
else
  grep -qw memory /sys/fs/cgroup/cgroup.controllers 2> /dev/null ||
    refuse "needs the control group controller memory"
  group=/sys/fs/cgroup/sluice-pressure-$$
  limit_file=memory.max
fi
mkdir "$group"
clean_up() {
  rm -rf "$work"
  while read -r process; do kill -KILL "$process" 2>/dev/null || true; done <"$group/cgroup.procs"
  sleep 0.2
  rmdir "$group"
}
trap clean_up EXIT
echo $((limit << 20)) >"$group/$limit_file"

export group hog tokens work
export command_line="$sluice run $model --ids 1,2,3,4 --greedy --print-ids --max-new $tokens \
--ram ${ram}M --learn off ${FLAGS:-}"
python3 - <<'PROGRAM'
import os, shlex, subprocess, sys, time

group, work = os.environ["group"], os.environ["work"]
hog, tokens = int(os.environ["hog"]), int(os.environ["tokens"])
command = shlex.split(os.environ["command_line"])

def join():
    with open(group + "/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))

def memory(pid):
    """Resident MiB and major faults so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return int(fields[21]) * 4096 >> 20, int(fields[9])

HOG = """
import sys, time
held = []
for step in range(int(sys.argv[1]) // 32):
    held.append(bytearray(b"x") * (32 << 20))
    time.sleep(0.05)
time.sleep(3600)
"""

def run(with_hog, report):
    stats = work + "/stats.json"
    process = subprocess.Popen(command + ["--stats-json", stats], stdout=subprocess.PIPE,
                               preexec_fn=join)
    first, last = tokens // 3, 2 * tokens // 3
    other, text, times, marks = None, b"", [], {}
    while True:
        byte = process.stdout.read(1)
        if not byte:
            break
        text += byte
        if byte not in b",\n":
            continue
        times.append(time.monotonic())
        if byte == b",":
            marks[len(times)] = memory(process.pid)
        if with_hog and len(times) == first:
            other = subprocess.Popen([sys.executable, "-c", HOG, str(hog)], preexec_fn=join)
        if other is not None and len(times) == last:
            alive = other.poll() is None
            other.kill()
            other.wait()
            print(f"the other process {'held its memory until it was ended' if alive else 'was killed by the system'}")
    code = process.wait()
    if report:
        full = last + (tokens - last) // 2  # what was given back has been read again by then
        for name, begin, end in (("before", first // 2, first), ("while", first, last),
                                 ("after", last, full), ("later", full, tokens - 1)):
            if begin >= end or end not in marks or begin not in marks:
                continue
            steps = [times[i] - times[i - 1] for i in range(begin, end)]
            print(f"{name:7} {sum(steps) / len(steps):6.3f} s per token, slowest {max(steps):6.3f} s, "
                  f"resident {marks[end][0]} MiB, major faults {marks[end][1] - marks[begin][1]}")
    return code, text

code, quiet = run(False, False)
print(f"alone: exit {code}")
code, pressed = run(True, True)
print(f"under pressure: exit {code}; the text is {'the same' if pressed == quiet else 'DIFFERENT'}")
sys.exit(0 if code == 0 and pressed == quiet else 1)
PROGRAM
