#!/usr/bin/env bash
# Promise: an include points down the stairs of the house only, and the check notices one that does not.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

"$root/scripts/check-layers"

# expect_fault LAYER/FILE INCLUDE: a tree with this one include must be refused, naming the file.
expect_fault() {
  rm -rf "$made/src" && mkdir -p "$made/src/$(dirname "$1")"
  printf '#pragma once\n#include "base/result.h"\n#include "%s"\n' "$2" > "$made/src/$1"
  if said=$("$root/scripts/check-layers" "$made/src" 2>&1); then
    echo "src/$1 including $2 was let through" >&2
    exit 1
  fi
  [[ $said == *"src/$1:3:"* ]] || { echo "the place is not named: $said" >&2; exit 1; }
}
expect_fault io/reader.h store/checkpoint.h
expect_fault kernels/matmul.h io/reader.h
expect_fault weights/plan.cc model/registry.h
expect_fault text/tokenizer.cc store/checkpoint.h
expect_fault model/kimi_k3/layer.cc engine/session.h
