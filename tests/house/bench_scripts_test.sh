#!/usr/bin/env bash
# Each script of bench/ says with --help what it does and needs, and does nothing else.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
found=0
for script in "$root"/bench/*.sh; do
  [[ $script == */common.sh ]] && continue
  said=$("$script" --help < /dev/null) || { echo "$script --help fails" >&2; exit 1; }
  [[ $said == *"bench/$(basename "$script") "* ]] || { echo "$script --help has no usage: $said" >&2; exit 1; }
  [[ $said == *[Nn]eeds* ]] || { echo "$script --help does not say what it needs: $said" >&2; exit 1; }
  code=0
  said=$("$script" /nowhere 2>&1 < /dev/null) || code=$?
  [[ $code == 2 && -n $said ]] || { echo "$script /nowhere ends with $code: $said" >&2; exit 1; }
  found=$((found + 1))
done
((found >= 3)) || { echo "only $found scripts were found" >&2; exit 1; }
