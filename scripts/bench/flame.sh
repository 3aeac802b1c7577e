#!/usr/bin/env bash
# flame.sh: flame graphs of the emulator's time, into docs/images: one TCP stream
# with segmentation offload through one switch, and a fat-tree in virtual time. It
# needs perf (Debian's linux-perf) and npm.
. "$(dirname "$0")/lib.sh"
scripts/install.sh perf npm perl rsvg-convert
npm install --silent --no-audit --no-fund --prefix "$work/npm" flamegraph@1.3.0 >/dev/null 2>&1
# graph NAME: draws perf's last recording. The module's own prefix and offsets are
# removed; flamegraph does not escape all &.
graph() {
  perf script -i "$work/perf" 2>/dev/null | sed -E 's/\+0x[0-9a-f]+ / /; s#github.com/weftlab/weft/##' |
    "$work/npm/node_modules/.bin/flamegraph" -t perf | perl -pe 's/&(?!amp;|lt;|gt;|quot;|apos;|#)/&amp;/g' >"$work/flame.svg"
  rsvg-convert -w 1600 "$work/flame.svg" -o "docs/images/flame-$1.png"
  echo "docs/images/flame-$1.png"
}
lab_up <<YAML
topology:
  $sysctls}
  generate: {star: {hosts: 2}}
YAML
pid=$($weft ps --json | jq ".[] | select(.name == \"$lab\") | .pid")
in_lab h2 iperf3 -s -1 >/dev/null & sleep 0.5
in_lab h1 iperf3 -4 -c h2 -C cubic -t 6 >/dev/null & client=$!
sleep 2
perf record -q -F 499 -g -p "$pid" -o "$work/perf" -- sleep 3 >/dev/null 2>&1
wait $client
lab_down
graph tcp
hosts=128
{
  echo "duration: 2ms"
  echo "topology: {kinds: {switch: {queue: {limit: 200KB}}, host: {queue: {limit: 200KB}}}, generate: {fat-tree: {k: 8, rate: 100Gbps, delay: 1us}}}"
  echo "workload:"
  for i in $(seq $hosts); do echo "  - {cbr: {from: h$i, to: h$(((i + hosts / 2 - 1) % hosts + 1)), rate: 40Gbps, size: 1000B}}"; done
} >"$work/fat-tree.yaml"
perf record -q -F 499 -g -o "$work/perf" -- "$weft" sim "$work/fat-tree.yaml" >/dev/null 2>&1
graph sim
