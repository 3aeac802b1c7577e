#!/usr/bin/env bash
# tcp.sh: one TCP stream through one switch over unlimited links without segmentation offload, at
# MTU 1500 and 9000, compared with veth + kernel bridge with offloads off and with the simplest loop
# that carries packets between two TAPs, all in turn in each run.
. "$(dirname "$0")/lib.sh"
go build -o "$work/tapjoin" ./scripts/bench/tapjoin
join_up() { # MTU
  ip netns add $ref_a; ip netns add $ref_b
  chrt -f 1 "$work/tapjoin" $ref_a $ref_b "$1" & join=$! # the scheduling that weft requests
  for n in a b; do
    until ip -n $lab-$n link set eth0 mtu "$1" up 2>/dev/null; do sleep 0.02; done
    ip -n $lab-$n link set eth0 txqueuelen 10000
  done
  ref_addresses
}
join_down() { kill $join; wait $join 2>/dev/null || true; ip netns del $ref_a; ip netns del $ref_b; }
for mtu in 1500 9000; do
  : >"$work/lab"; : >"$work/veth"; : >"$work/join"
  for _ in $(seq "$RUNS"); do
    lab_up <<YAML
topology:
  ${sysctls/host: \{/host: \{offload: off, }, link: {mtu: $mtu}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
YAML
    iperf 1 "in_lab h1" "in_lab h2" 10.0.0.2 -C cubic -t 5 >>"$work/lab"
    lab_down
    veth_up $mtu off
    iperf 1 "ip netns exec $ref_a" "ip netns exec $ref_b" 10.0.0.2 -C cubic -t 5 >>"$work/veth"
    veth_down
    join_up $mtu
    iperf 1 "ip netns exec $ref_a" "ip netns exec $ref_b" 10.0.0.2 -C cubic -t 5 >>"$work/join"
    join_down
  done
  got=$(median <"$work/lab") veth=$(median <"$work/veth") join=$(median <"$work/join")
  echo "| TCP, MTU $mtu, one switch, offload: off | $(calc "$got/1e9" %.2f) Gb/s | $(calc "$veth/1e9" %.2f) Gb/s veth + bridge, offloads off | $(calc "$got/$veth" %.2f) |"
  echo "| TCP, MTU $mtu, one switch, offload: off | $(calc "$got/1e9" %.2f) Gb/s | $(calc "$join/1e9" %.2f) Gb/s bare TAP loop | $(calc "$got/$join" %.2f) |"
done
