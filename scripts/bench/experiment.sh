#!/usr/bin/env bash
# experiment.sh: the cost of experiments: how busy twenty short cells keep the cores,
# the memory of a run with a million flows, and how much longer a run takes if it
# writes a record of each flow. It takes about three minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH=$PATH:/usr/local/go/bin
scripts/install.sh go
go build -o bin/weft .
weft=$PWD/bin/weft
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# processor COMMAND...: runs a command, and prints its processor time and its elapsed
# time in seconds.
processor() {
  local TIMEFORMAT='%U %S %R'
  { time "$@" >out 2>err; } 2>&1 | awk '{ print $1 + $2, $3 }'
}

cat >cells.yaml <<'LAB'
lab:
  topology: {generate: {fat-tree: {k: 4, rate: 10Gbps, delay: 1us}}, kinds: {host: {attach: none, nic: roce}}}
  window: {end: 20ms}
  workload: [{arrivals: {load: 50%, sizes: websearch}}]
seeds: 20
measure: {slowdown: {of: flows, column: slowdown, stat: p99}}
LAB
read -r cpu clock < <(processor "$weft" experiment cells.yaml)
awk -v c="$cpu" -v t="$clock" -v n="$(nproc)" 'BEGIN { printf "twenty cells: %.1f s of processor time in %.1f s, %.2f of %d cores\n", c, t, c / t, n }'

cat >million.yaml <<'LAB'
topology: {generate: {star: {hosts: 16, rate: 100Gbps, delay: 1us}}, kinds: {host: {attach: none, nic: roce}}}
workload: [{arrivals: {load: 30%, sizes: 1KB, count: 1000000}}]
LAB
"$weft" sim million.yaml --flow-records flows.csv >report &
run=$!
most=0
while kill -0 $run 2>/dev/null; do
  now=$(awk '/VmHWM/ { print $2 }' /proc/$run/status 2>/dev/null || true)
  most=${now:-$most}
  sleep 0.1
done
wait $run
echo "a million flows: $((most / 1000)) MB at most, $(($(wc -l <flows.csv) - 1)) records"

cat >records.yaml <<'LAB'
topology: {generate: {fat-tree: {k: 4, rate: 10Gbps, delay: 1us}}, kinds: {host: {attach: none, nic: roce}}}
window: {end: 100ms}
workload: [{arrivals: {load: 50%, sizes: websearch}}]
LAB
for kind in websearch one-packet; do
  lab=records.yaml
  [ $kind = websearch ] || { sed 's/count: 1000000/count: 200000/' million.yaml >short.yaml; lab=short.yaml; }
  : >with >without
  for _ in 1 2 3 4 5; do
    processor "$weft" sim $lab >>without
    processor "$weft" sim $lab --flow-records flows.csv >>with
  done
  median() { awk '{ print $1 }' "$1" | sort -g | sed -n 3p; }
  awk -v k=$kind -v w="$(median with)" -v o="$(median without)" 'BEGIN { printf "records of %s flows: %.2f and %.2f s of processor time with and without, medians of 5, ratio %.3f\n", k, w, o, w / o }'
done
