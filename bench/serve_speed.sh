#!/usr/bin/env bash
# The speed at which `sluice serve` decodes, beside that of `sluice run`: the same model, flags and
# prompt, both streamed and read by a client. Of a long and a short answer the difference in time is
# that of the tokens between, whatever starting, reading the prompt and ending take. Needs bc, curl, jq.
#
#   bench/serve_speed.sh SLUICE MODEL [ROUNDS [FLAG...]]
#
# ROUNDS is 7 unless given. SERVE_FLAGS are for the server alone, LONG is the longer answer (1600).
set -euo pipefail

source "$(dirname "$0")/common.sh"
help_if_asked "$@"
(($# >= 2)) || refuse "usage: bench/serve_speed.sh SLUICE MODEL [ROUNDS [FLAG...]]"
need bc curl jq
need_program "$1"
sluice=$1 model=$2 rounds=${3:-7}
flags=("${@:4}")
short=100 long=${LONG:-1600}
prompt="It was on a dreary night of November, that I beheld the accomplishment of my toils."
work=$(mktemp -d)
SERVE_FLAGS=${SERVE_FLAGS:-}  # of the server alone, as "--state-dir /drive/state"
server=
trap 'if [[ -n $server ]]; then kill "$server" 2> /dev/null; fi; rm -rf "$work"' EXIT

"$sluice" serve "$model" --port 0 $SERVE_FLAGS "${flags[@]}" 2> "$work/log" &
server=$!
until grep -q 'http://' "$work/log"; do
  kill -0 "$server" || { cat "$work/log" >&2; exit 1; }
  sleep 0.1
done
url=$(grep -o 'http://[^ ]*' "$work/log" | head -1)

seconds() { # COMMAND...
  local begin end
  begin=$(date +%s%N)
  "$@" > "$work/out"
  end=$(date +%s%N)
  echo $((end - begin))
}
run() { "$sluice" run "$model" -p "$prompt" --greedy --quiet --max-new "$1" "${flags[@]}" | cat; }
serve() {
  jq -n --arg prompt "$prompt" --arg model "$(basename "$model")" --argjson tokens "$1" \
    '{model: $model, prompt: $prompt, max_tokens: $tokens, temperature: 0, stream: true}' |
    curl -sN "$url/completions" -d @-
}
text() { sed -n 's/^data: {/{/p' "$work/out" | jq -j '.choices[0].text'; }

run "$long" > "$work/run.txt"
serve "$long" > "$work/out"
# The program ends its text with a line's end.
if [[ $(text) != "$(cat "$work/run.txt")" ]]; then
  echo "the texts differ" >&2
  exit 1
fi
for ((round = 0; round < rounds; ++round)); do
  for what in run serve; do
    first=$(seconds "$what" "$short")
    second=$(seconds "$what" "$long")
    echo "$((long - short)) * 1000000000 / ($second - $first)" | bc -l >> "$work/$what"
  done
done
median() { sort -n "$1" | sed -n "$((rounds / 2 + 1))p"; }
one=$(median "$work/run") two=$(median "$work/serve")
printf 'run %.1f tokens/s, serve %.1f tokens/s (medians of %d), ratio %.3f\n' "$one" "$two" "$rounds" \
  "$(echo "$two / $one" | bc -l)"
