#!/usr/bin/env bash
# nic.sh: emulated RDMA NICs in virtual time: packet-hops per second of 128 NICs in
# a fat-tree of 100 Gb/s links, each with 10 MB to WRITE to another under DCQCN, ECN
# and PFC, compared with a permutation of plain flows on the same fabric that also
# fills queues; an 8-byte WRITE with one queue pair and with ten thousand that take
# turns; and the memory of an idle queue pair.
. "$(dirname "$0")/lib.sh"
go test -c -o "$work/fabric.test" ./emu/fabric
go test -c -o "$work/nicemu.test" ./nicemu
{
  echo "duration: 500us"
  echo "topology: {kinds: {switch: {queue: {limit: 200KB}}, host: {queue: {limit: 200KB}}}, generate: {fat-tree: {k: 8, rate: 100Gbps, delay: 1us}}}"
  echo "workload:"
  for i in $(seq 128); do echo "  - {cbr: {from: h$i, to: h$(((i + 63) % 128 + 1)), rate: 100Gbps, size: 1000B}}"; done
} >"$work/plain.yaml"
seconds() { /usr/bin/env time -f %e -o "$work/time" "$@" >"$work/out"; cat "$work/time"; }
empty=$(seconds "$weft" sim --json --for 1ns "$work/plain.yaml")
for _ in $(seq "$RUNS"); do
  took=$(seconds "$weft" sim --json "$work/plain.yaml")
  calc "1e9*($took-$empty)/$(jq '[.ports[].tx_packets] | add' "$work/out")" %.0f >>"$work/plain"; echo >>"$work/plain"
  (cd emu/fabric && "$work/fabric.test" -test.run xxx -test.bench Permutation -test.benchtime 1x) | grep -o '[0-9.]* ns/hop' >>"$work/nics"
  (cd nicemu && "$work/nicemu.test" -test.run xxx -test.bench ManyQueuePairs -test.benchtime 100000x) | awk -v dir="$work" '/ns\/op/ {split($1, n, "[/-]"); print $3 >> (dir "/many" n[2] "-" n[3])}'
done
of() { awk '{print $1}' "$work/$1" | median; }
echo "| 128 NICs, 10 MB each to another, DCQCN, ECN, PFC | $(calc "1000/$(of nics)" %.2f) million hops/s ($(of nics) ns a hop) | plain flows that fill queues: $(calc "1000/$(of plain)" %.2f) million | $(calc "$(of nics)/$(of plain)" %.2f) times the time |"
many() { echo "| WRITE of 8 B, post to poll: $1 | $(of "$2") ns | one queue pair: $(of many1-1) ns | $(calc "$(of "$2")/$(of many1-1)" %.2f) |"; }
many "100 queue pairs in turn" many100-100
many "10000 queue pairs, one in use" many10000-1
many "10000 queue pairs in turn" many10000-10000
(cd nicemu && "$work/nicemu.test" -test.run 'TestIdleQueuePairIsSmall' -test.v) | grep -o 'an idle.*' | sed 's/^/| /; s/$/ | | |/'
