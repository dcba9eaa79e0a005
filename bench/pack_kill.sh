#!/usr/bin/env bash
# Kills `sluice pack` with SIGKILL at random moments, starts it again each time, and compares what
# comes out with a pack that was never killed. Needs bc, and in FOLDER room for the model.
#
#   bench/pack_kill.sh SLUICE MODEL FOLDER [KILLS]
#
# KILLS is 20 unless given; the folders FOLDER/one and FOLDER/two are removed first.
set -euo pipefail

source "$(dirname "$0")/common.sh"
help_if_asked "$@"
(($# >= 3)) || refuse "usage: bench/pack_kill.sh SLUICE MODEL FOLDER [KILLS]"
need bc sha256sum
need_program "$1"
sluice=$1 model=$2 folder=$3 kills=${4:-20}
one=$folder/one two=$folder/two
pack=("$sluice" pack "$model" --out "$one" --out "$two" --speed 2,1 --quiet)
sum() { (cd "$folder" && find one two -type f -print0 | sort -z | xargs -0 sha256sum); }

mkdir -p "$folder"
rm -rf "$one" "$two"
start=$(date +%s.%N)
"${pack[@]}" > /dev/null
seconds=$(echo "$(date +%s.%N) - $start" | bc)
expected=$(sum)
rm -rf "$one" "$two"

done_early=0
for ((kill = 1; kill <= kills; ++kill)); do
  "${pack[@]}" > /dev/null 2>&1 &
  child=$!
  # Anywhere in the run, the beginning and the read-back included.
  sleep "$(echo "$seconds * $RANDOM / 32768 / 2" | bc -l)"
  if ! kill -KILL "$child" 2> /dev/null; then ((++done_early)); fi
  wait "$child" 2> /dev/null || true
  # A pack that was done before its kill is begun anew, so that every kill meets an unfinished one.
  if [[ -e $one/sluice-pack.index ]]; then rm -rf "$one" "$two"; fi
done
"${pack[@]}" > /dev/null
if [[ $(sum) != "$expected" ]]; then
  echo "after $kills kills the pack differs" >&2
  exit 1
fi
"$sluice" verify "$one" --quiet
echo "$kills kills ($done_early came after the end), one run without takes $seconds s: the same bytes"
