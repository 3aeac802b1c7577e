#!/usr/bin/env bash
# memory.sh: the memory of labs in virtual time: peak resident memory, and the part of
# it in pages of files, which are the program's. Of
# - 128 and 1024 NICs in a fat-tree of 100 Gb/s links with two classes, PFC, ECN and
#   DCQCN, each of which WRITEs 2 MB to another;
# - the same NICs, stopped before they send;
# - two hosts, which is the program itself.
# BEFORE=PATH also runs another weft, whose traces must be the same.
. "$(dirname "$0")/lib.sh"
# nics K DURATION
nics() {
  local hosts=$(($1 * $1 * $1 / 4)) i
  cat <<YAML
duration: $2
topology:
  kinds:
    host: {attach: none, nic: {dscp: 26, cc: dcqcn}}
    switch:
      buffer: {size: 16MB}
      classes:
        roce: {dscp: 26, priority: 3, weight: 1, pfc: {xoff: 100KB, xon: 80KB}, mark: {red: {kmin: 100KB, kmax: 400KB, pmax: 20%}}}
        default: {weight: 1}
  generate: {fat-tree: {k: $1, rate: 100Gbps, delay: 1us}}
workload:
YAML
  for i in $(seq $hosts); do echo "  - {write: {from: h$i, to: h$(((i + hosts / 2 - 1) % hosts + 1)), size: 2MB, count: 1}}"; done
}
two() {
  echo "duration: 1s"
  echo "topology: {kinds: {link: {rate: 10Gbps, delay: 1us}}, nodes: {h1: {kind: host}, h2: {kind: host}}, links: [{endpoints: [\"h1:eth0\", \"h2:eth0\"]}]}"
  echo "workload: [{cbr: {from: h1, to: h2, rate: 1Gbps, size: 1000B}}]"
}
# run NAME WAY WEFT: appends the peak resident memory, and its pages of files, in KB
run() {
  local pid now files=0
  /usr/bin/env time -f %M -o "$work/most" "$3" sim --json "$work/$1.yaml" >"$work/out" &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    now=$(cat /proc/$pid/task/$pid/children 2>/dev/null) || now=
    now=$(sed -n 's/^RssFile:[^0-9]*\([0-9]*\).*/\1/p' "/proc/${now%% *}/status" 2>/dev/null) || now=
    [ "${now:-0}" -le $files ] || files=$now
    sleep 0.01
  done
  wait $pid
  cat "$work/most" >>"$work/$1.$2"
  echo $files >>"$work/$1.$2.files"
  jq -r .trace "$work/out" >>"$work/$1.trace"
}
mb() { calc "$(median <"$1")/1024" %.0f; }
two >"$work/two.yaml"
nics 8 1ms >"$work/k8.yaml"
nics 16 1ms >"$work/k16.yaml"
nics 16 1ns >"$work/k16-idle.yaml"
while read -r name what; do
  for _ in $(seq "$RUNS"); do
    if [ -n "${BEFORE:-}" ]; then run "$name" before "$BEFORE"; fi
    run "$name" now "$weft"
  done
  [ "$(sort -u "$work/$name.trace" | wc -l)" = 1 ] || { echo "the traces differ" >&2; exit 1; }
  for way in before now; do
    [ -f "$work/$name.$way" ] || continue
    echo "| $what${BEFORE:+, $way} | $(mb "$work/$name.$way") MB | $(mb "$work/$name.$way.files") MB | |"
  done
done <<'LIST'
two two hosts
k8 128 NICs, k = 8
k16 1024 NICs, k = 16
k16-idle the same 1024 NICs, ended before they send
LIST
