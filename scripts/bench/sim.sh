#!/usr/bin/env bash
# sim.sh: virtual time. Packet-hops per second of one worker on one core and of two
# workers, and memory, of
# - fat-trees of 16, 128 and 1024 hosts with 100 Gb/s links and a permutation of
#   constant-rate flows of 1000-byte packets, at loads that leave queues short (5, 20,
#   40 Gb/s a host) and that fill those where flows meet (100 Gb/s);
# - the same with links of 100 ns, and two hosts;
# - 128 NICs with DCQCN and PFC.
# BEFORE=PATH alternates with another weft, which is run without --workers. CASES selects
# some, such as "k8-20 nic". In addition to the processor time of the run, it prints instructions
# and cache misses per hop where perf can count them, and the result of a loop that only
# touches the memory of as many nodes and packets (barehop). k34, 9,826 hosts, runs only
# by name. SPAN=N makes every run N times as long in emulated time: two workers need runs of
# seconds, since it takes a tenth of one to find out that both gain. Two independent runs at
# the same time, one on each core, show the most that two workers could do.
. "$(dirname "$0")/lib.sh"
go build -o "$work/barehop" ./scripts/bench/barehop
go build -o "$work/coretocore" ./scripts/bench/coretocore
# pair COMMAND...: runs it twice at the same time, on two cores.
cat >"$work/pair" <<'SH'
#!/bin/sh
taskset -c 0 "$@" >/dev/null & taskset -c 1 "$@" && wait $!
SH
chmod +x "$work/pair"
hosts=0 nodes=0 span=${SPAN:-1}
shared() { cat /sys/devices/system/cpu/cpu0/cache/index"$1"/shared_cpu_list 2>/dev/null || echo unknown; }
echo "cores $(nproc); cores with core 0's second-level cache: $(shared 2), third-level: $(shared 3)"
apart() { echo "a cache line takes $("$work/coretocore" || echo unknown) ns from core to core (25 to 60 on one die, 100 to 200 between two; a hypervisor may change that at any time)"; }
# tree K GBPS MICROSECONDS DELAY
tree() {
  hosts=$(($1 * $1 * $1 / 4)) nodes=$(($1 * $1 * $1 / 4 + 5 * $1 * $1 / 4))
  echo "duration: $((span * $3))us"
  echo "topology: {kinds: {switch: {queue: {limit: 200KB}}, host: {queue: {limit: 200KB}}}, generate: {fat-tree: {k: $1, rate: 100Gbps, delay: ${4:-1us}}}}"
  echo "workload:"
  for i in $(seq $hosts); do echo "  - {cbr: {from: h$i, to: h$(((i + hosts / 2 - 1) % hosts + 1)), rate: ${2}Gbps, size: 1000B}}"; done
}
two() {
  echo "duration: $((span * 200))ms"
  echo "topology: {kinds: {link: {rate: 100Gbps, delay: 100ns}}, nodes: {h1: {kind: host}, h2: {kind: host}}, links: [{endpoints: [\"h1:eth0\", \"h2:eth0\"]}]}"
  echo "workload: [{cbr: {from: h1, to: h2, rate: 20Gbps, size: 1000B}}, {cbr: {from: h2, to: h1, rate: 20Gbps, size: 1000B}}]"
}
nic() {
  cat <<YAML
duration: ${span}ms
topology:
  kinds:
    host: {attach: none, nic: {dscp: 26, cc: dcqcn}}
    switch:
      buffer: {size: 16MB}
      classes:
        roce: {dscp: 26, priority: 3, weight: 1, pfc: {xoff: 100KB, xon: 80KB}, mark: {red: {kmin: 100KB, kmax: 400KB, pmax: 20%}}}
        default: {weight: 1}
  generate: {fat-tree: {k: 8, rate: 100Gbps, delay: 1us}}
workload:
YAML
  for i in $(seq 128); do echo "  - {write: {from: h$i, to: h$(((i + 63) % 128 + 1)), size: 1MB, for: ${span}ms}}"; done
}
# run NAME WAY COMMAND...: appends seconds, memory in KB and traces to NAME.WAY, .mem, .trace
run() {
  local name=$1 way=$2 user system memory
  shift 2
  /usr/bin/env time -f "%U %S %e %M" -o "$work/time" "$@" sim --json $flags "$work/$name.yaml" >"$work/out"
  read -r user system elapsed memory <"$work/time"
  # On one core, processor time, which other processes do not affect.
  if [ "$way" = two ] || [ "$way" = both ]; then echo "$elapsed"; else calc "$user+$system" %.3f; echo; fi >>"$work/$name.$way"
  echo "$memory" >>"$work/$name.$way.mem"
  jq -r .trace "$work/out" >>"$work/$name.trace"
  jq '[.ports[].tx_packets] | add' "$work/out" >"$work/$name.hops"
}
# all NAME: runs every variant once, one after the other
all() {
  local name=$1
  if [ -n "${BEFORE:-}" ]; then flags="" run "$name" before taskset -c 0 "$BEFORE"; fi
  flags="--workers 1" run "$name" one taskset -c 0 "$weft"
  flags="--workers 2" run "$name" two "$weft"
  flags="--workers 1" run "$name" both "$work/pair" "$weft"
}
for name in ${CASES:-k4-20 k8-5 k8-20 k8-40 k8-100 k16-20 short two nic}; do
  case $name in
  k4-20) tree 4 20 20000 ;;
  k8-5) tree 8 5 4000 ;;
  k8-20) tree 8 20 2000 ;;
  k8-40) tree 8 40 1000 ;;
  k8-100) tree 8 100 500 ;;
  k16-20) tree 16 20 150 ;;
  k34) tree 34 20 40 ;;
  short) tree 8 20 2000 100ns ;;
  two) nodes=2; two ;;
  nic) nodes=208; nic ;;
  *) echo "no case $name" >&2; exit 2 ;;
  esac >"$work/$name.yaml"
  # The time to read the file and build the fabric is subtracted.
  sed 's/^duration: .*/duration: 1ns/' "$work/$name.yaml" >"$work/$name-empty.yaml"
  for _ in $(seq "$RUNS"); do all "$name-empty"; done
  for _ in $(seq "$RUNS"); do all "$name"; done
  apart
  [ "$(sort -u "$work/$name.trace" | wc -l)" = 1 ] || { echo "the traces differ" >&2; exit 1; }
  hops=$(cat "$work/$name.hops")
  for way in before one two both; do
    [ -f "$work/$name.$way" ] || continue
    seconds=$(calc "$(median <"$work/$name.$way")-$(median <"$work/$name-empty.$way")")
    if [ $way = both ]; then # runs
      echo "| $name | two runs, one on each core | $(calc "2*$hops/$seconds/1e6" %.2f) million hops/s | | |"
      continue
    fi
    echo "| $name | $way | $(calc "$hops/$seconds/1e6" %.2f) million hops/s | $(calc "$seconds*1e9/$hops" %.0f) ns a hop | $(calc "$(median <"$work/$name.$way.mem")/1024" %.0f) MB |"
  done
  # A hop takes a link's delay of 1 us and some 0.1 us on the wire, so this many are in flight.
  micros=$(sed -n 's/^duration: //p' "$work/$name.yaml" | sed 's/us$//; s/ms$/000/')
  bare=$(for _ in $(seq "$RUNS"); do taskset -c 0 "$work/barehop" $nodes "$(calc "$hops/$micros*1.1+1" %.0f)"; done | median)
  echo "| $name | bare loop | $(calc "1e3/$bare" %.2f) million hops/s | $bare ns a hop | |"
  if counted=$(perf stat -x, -e instructions:u,cache-misses:u "$weft" sim --json --workers 1 "$work/$name.yaml" 2>&1 >/dev/null | cut -d, -f1) && [[ $counted =~ ^([0-9]+)[[:space:]]+([0-9]+) ]]; then
    echo "| $name | one | $(calc "${BASH_REMATCH[1]}/$hops" %.0f) instructions and $(calc "${BASH_REMATCH[2]}/$hops" %.1f) cache misses a hop, with reading the file | | |"
  else
    echo "| $name | one | perf counts no instructions and no cache misses on this machine | | |"
  fi
done
