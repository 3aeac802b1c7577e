#!/usr/bin/env bash
# sim.sh: virtual time. Fat-trees of 16, 128 and 1024 hosts with 100 Gb/s links
# and a permutation of constant-rate flows of 1000-byte packets, at loads that
# leave queues short (20, 40 Gb/s a host) and that fill those where flows meet
# (100 Gb/s): packet-hops per second on one core, on two shards, and memory.
. "$(dirname "$0")/lib.sh"
# file K GBPS MICROSECONDS
file() {
  local hosts=$(($1 * $1 * $1 / 4))
  echo "duration: ${3}us"
  echo "topology: {kinds: {switch: {queue: {limit: 200KB}}, host: {queue: {limit: 200KB}}}, generate: {fat-tree: {k: $1, rate: 100Gbps, delay: 1us}}}"
  echo "workload:"
  for i in $(seq $hosts); do echo "  - {cbr: {from: h$i, to: h$(((i + hosts / 2 - 1) % hosts + 1)), rate: ${2}Gbps, size: 1000B}}"; done
}
# run NAME SHARDS: appends hops/s to NAME.SHARDS, memory in MB to NAME.mem
run() {
  /usr/bin/env time -f "%e %M" -o "$work/time" "$weft" sim --json --shards "$2" "$work/$1.yaml" >"$work/out"
  local empty seconds hops
  empty=$(cat "$work/$1.empty")
  read -r seconds memory <"$work/time"
  hops=$(jq '[.ports[].tx_packets] | add' "$work/out")
  calc "$hops/($seconds-$empty)" %.0f >>"$work/$1.$2"; echo >>"$work/$1.$2"
  echo "$memory" >>"$work/$1.mem"
  jq -r .trace "$work/out" >>"$work/$1.trace"
}
for c in 4/20/20000 8/20/2000 8/40/1000 8/100/500 16/20/150; do
  IFS=/ read -r k load span <<<"$c"
  name=k$k-$load
  file "$k" "$load" "$span" >"$work/$name.yaml"
  # The time to read the file and build the fabric is taken off.
  /usr/bin/env time -f %e -o "$work/$name.empty" "$weft" sim --json --for 1ns "$work/$name.yaml" >/dev/null
  for _ in $(seq "$RUNS"); do
    run "$name" 1
    run "$name" 2
  done
  [ "$(sort -u "$work/$name.trace" | wc -l)" = 1 ] || { echo "the traces differ" >&2; exit 1; }
  one=$(median <"$work/$name.1") two=$(median <"$work/$name.2")
  echo "| fat-tree k=$k, $((k * k * k / 4)) hosts at $load Gb/s, one shard | $(calc "$one/1e6" %.2f) million hops/s | $(calc "1e9/$one" %.0f) ns a hop, $(calc "$(median <"$work/$name.mem")/1024" %.0f) MB | |"
  echo "| the same on two shards, same trace | $(calc "$two/1e6" %.2f) million hops/s | $(calc "$one/1e6" %.2f) million hops/s on one | $(calc "$two/$one" %.2f) |"
done
