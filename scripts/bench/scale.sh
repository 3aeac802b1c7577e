#!/usr/bin/env bash
# scale.sh: how long 64 real hosts on a leaf-spine take to start and to stop,
# compared with making and removing as many namespaces with one veth pair each with
# ip.
. "$(dirname "$0")/lib.sh"
now() { date +%s.%N; }
for _ in $(seq "$RUNS"); do
  start=$(now)
  lab_up <<YAML
topology:
  generate: {leaf-spine: {spines: 4, leaves: 8, hosts-per-leaf: 8, rate: 1Gbps, delay: 5us}}
YAML
  up=$(now)
  in_lab h1 ping -4 -c 1 -W 5 h64 >/dev/null
  down=$(now)
  lab_down
  end=$(now)
  echo "$(calc "$up-$start") $(calc "$end-$down")"
  start=$(now)
  for i in $(seq 64); do ip netns add $lab-n$i; ip -n $lab-n$i link add eth0 type veth peer name p; ip -n $lab-n$i link set eth0 up; done
  up=$(now)
  for i in $(seq 64); do ip netns del $lab-n$i; done
  end=$(now)
  echo "$(calc "$up-$start") $(calc "$end-$up")" >>"$work/ref"
done >"$work/runs"
col() { awk "{print \$$2}" "$work/$1" | median; }
echo "| 64 hosts up | $(col runs 1) s | $(col ref 1) s for ip netns + veth | $(calc "$(col runs 1)/$(col ref 1)" %.2f) |"
echo "| 64 hosts down | $(col runs 2) s | $(col ref 2) s for ip netns del | $(calc "$(col runs 2)/$(col ref 2)" %.2f) |"
