#!/usr/bin/env bash
# Do drives add up, does a slow one beside fast ones cost anything, and is a drive missed that goes
# away in mid-run? On loop devices whose reads the kernel holds to a rate, so that any machine can
# show it. Usage, as root:
#
#   bench/drives.sh [PROGRAM] [FOLDER]
#
# PROGRAM is build/sluice unless given. FOLDER (default: /dev/shm, memory, so that the drive below is
# not measured) takes an image of about 5 GB, which is kept for the next time, and packs of as much.
# Needs mkfs.ext4, loop devices, and the control group controller blkio (version 1) or io (version 2).
set -euo pipefail

source "$(dirname "$0")/common.sh"
help_if_asked "$@"
need_root
need mkfs.ext4 losetup lsblk python3 awk
[ -e /dev/loop-control ] || refuse "needs loop devices, and there are none here"
program=$(realpath -m "${1:-build/sluice}")
need_program "$program"
[ -d "${2:-/dev/shm}" ] || refuse "$2: there is no such folder"
folder=$(realpath "${2:-/dev/shm}")/sluice-drives
source=$(realpath "$(dirname "$0")/..")
fast=$((400 * 1000 * 1000))
slow=$((40 * 1000 * 1000))
mkdir -p "$folder"
devices=()

if [ -d /sys/fs/cgroup/blkio ]; then
  group=/sys/fs/cgroup/blkio/sluice-drives
  limit() { echo "$1 $2" > "$group/blkio.throttle.read_bps_device"; }
else
  grep -qw io /sys/fs/cgroup/cgroup.controllers 2> /dev/null ||
    refuse "needs the control group controller blkio (version 1) or io (version 2)"
  group=/sys/fs/cgroup/sluice-drives
  echo +io > /sys/fs/cgroup/cgroup.subtree_control
  limit() { echo "$1 rbps=$2" > "$group/io.max"; }
fi
mkdir -p "$group"

detach_all() {
  for i in "${!devices[@]}"; do
    umount -l "$folder/drive-$i" 2>/dev/null || true
    losetup -d "${devices[$i]}" 2>/dev/null || true
  done
  devices=()
}
trap 'detach_all; rmdir "$group" 2>/dev/null || true' EXIT

# attach IMAGE RATE: one more drive, read only, mounted at drive-0, drive-1, ...
attach() {
  local index=${#devices[@]} device
  device=$(losetup -f --show -r "$1")
  devices+=("$device")
  mkdir -p "$folder/drive-$index"
  mount -o ro,noload "$device" "$folder/drive-$index"
  limit "$(lsblk -dno MAJ:MIN "$device" | tr -d ' ')" "$2"
}

# within COMMAND...: runs it where the rates hold.
within() { (echo "$BASHPID" > "$group/cgroup.procs"; exec "$@"); }

# make_image NAME SIZE COMMAND...: an image whose files COMMAND writes into the folder that is
# appended to it.
make_image() {
  local image=$folder/$1 mounted=$folder/new
  [ -e "$image" ] && return
  rm -f "$image.part"
  truncate -s "$2" "$image.part"
  mkfs.ext4 -q -F -m 0 "$image.part"
  mkdir -p "$mounted"
  mount -o loop "$image.part" "$mounted"
  "${@:3}" "$mounted/model"
  umount "$mounted"
  mv "$image.part" "$image"
}

# decode DRIVES: seconds per token with copies on that many drives.
decode() {
  local folders=() i
  for ((i = 1; i < $1; ++i)); do folders+=(--model-dir "$folder/drive-$i/model"); done
  within "$program" bench decode "$folder/drive-0/model" "${folders[@]}" --io uring --ram 1G \
    --ctx 64 --tokens 4 --json -q |
    python3 -c 'import json,sys; r = json.load(sys.stdin); print(r["seconds_per_token"], r["bytes_per_s"] / 1e6)'
}

add_up() {
  make_image shape.img 6G "$program" synth kimi-k3 --layers 2 --experts 48 --vocab 4096 -q
  local image=$folder/shape.img one rate spt
  echo "decode, real widths, 2 layers, 48 experts, --ram 1G, drives of 400 MB/s:"
  for count in 1 2 3 4; do
    detach_all
    for ((i = 0; i < count; ++i)); do attach "$image" "$fast"; done
    read -r spt rate < <(decode "$count")
    [ "$count" = 1 ] && one=$spt
    [ "$count" = 3 ] && three=$spt
    awk -v c="$count" -v s="$spt" -v r="$rate" -v o="$one" \
      'BEGIN { printf "  %d drives: %.3f s per token, %.0f MB/s, %.2f times one\n", c, s, r, o / s }'
  done
  detach_all
  for ((i = 0; i < 3; ++i)); do attach "$image" "$fast"; done
  attach "$image" "$slow"
  read -r spt rate < <(decode 4)
  awk -v s="$spt" -v r="$rate" -v t="$three" \
    'BEGIN { printf "  3 drives and one of 40 MB/s: %.3f s per token, %.0f MB/s, %.3f times three\n", s, r, t / s }'
}

# pack_over DRIVES: the model as a pack in images pack-0.img, pack-1.img, ...
pack_over() {
  local outs=() i
  detach_all
  attach "$folder/shape.img" $((100 * fast))
  for ((i = 0; i < $1; ++i)); do
    truncate -s 6G "$folder/pack-$i.img"
    mkfs.ext4 -q -F -m 0 "$folder/pack-$i.img"
    mkdir -p "$folder/new-$i"
    mount -o loop "$folder/pack-$i.img" "$folder/new-$i"
    outs+=(--out "$folder/new-$i/model")
  done
  "$program" pack "$folder/drive-0/model" "${outs[@]}" --speed equal -q > /dev/null
  for ((i = 0; i < $1; ++i)); do umount "$folder/new-$i"; done
}

packs_add_up() {
  local one rate spt
  echo "the same model as a pack over drives of 400 MB/s:"
  for count in 1 2 4; do
    pack_over "$count"
    detach_all
    for ((i = 0; i < count; ++i)); do attach "$folder/pack-$i.img" "$fast"; done
    read -r spt rate < <(decode "$count")
    [ "$count" = 1 ] && one=$spt
    awk -v c="$count" -v s="$spt" -v r="$rate" -v o="$one" \
      'BEGIN { printf "  %d drives: %.3f s per token, %.0f MB/s, %.2f times one\n", c, s, r, o / s }'
    detach_all
    rm -f "$folder"/pack-*.img
  done
}

copy_nano() { mkdir "$1" && cp -L "$source"/models/k3-nano/* "$1"; }

# generate FOLDERS...: the text, on drives so slow that it takes some seconds.
generate() {
  within "$program" run "$folder/drive-0/model" "$@" --io uring --ram 24M --greedy --max-new 48 \
    -p "Once upon a time"
}

lose_one() {
  rm -f "$folder"/nano-*.img
  make_image nano-0.img 48M copy_nano
  make_image nano-1.img 48M copy_nano
  detach_all
  attach "$folder/nano-0.img" $((60 * 1000 * 1000))
  attach "$folder/nano-1.img" $((60 * 1000 * 1000))
  generate -q > "$folder/expected.txt"
  # Without capacity a block device answers every read with an error, as one that was pulled out does.
  (sleep 1.5; truncate -s 0 "$folder/nano-1.img"; losetup -c "${devices[1]}") &
  generate --model-dir "$folder/drive-1/model" > "$folder/found.txt" 2> "$folder/notes.txt"
  wait
  echo "k3-nano on two drives, one of which loses all its blocks after 1.5 s:"
  grep -m2 -i "copy\|left alone" "$folder/notes.txt" | cut -c1-150 | sed 's/^/  /' ||
    refuse "the run ended before its drive was taken away: nothing was shown"
  cmp "$folder/expected.txt" "$folder/found.txt" && echo "  the text is identical"
}

detach_all
add_up
packs_add_up
lose_one
