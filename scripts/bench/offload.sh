#!/usr/bin/env bash
# offload.sh: one TCP stream at MTU 1500 over unlimited links with segmentation
# offload, through one switch, two switches and a leaf-spine fabric, compared with
# the same without offload, with the simplest loop between two TAPs that forwards
# super-packets of 64 KB unsplit, and with veth + kernel bridge with all offloads,
# which passes references to memory and copies nothing; all in turn in each run.
. "$(dirname "$0")/lib.sh"
go build -o "$work/tapjoin" ./scripts/bench/tapjoin
seconds=${SECONDS_EACH:-5}
join_up() {
  ip netns add $ref_a; ip netns add $ref_b
  chrt -f 1 "$work/tapjoin" $ref_a $ref_b 1500 offload & join=$! # the scheduling that weft requests
  for n in a b; do
    until ip -n $lab-$n link set eth0 mtu 1500 up 2>/dev/null; do sleep 0.02; done
    ip -n $lab-$n link set eth0 txqueuelen 10000
  done
  ref_addresses
}
join_down() { kill $join; wait $join 2>/dev/null || true; ip netns del $ref_a; ip netns del $ref_b; }
stream() { # NAME FROM TO TO-ADDRESS; the lab's text on standard input
  lab_up
  iperf 1 "in_lab $2" "in_lab $3" "$4" -C cubic -t "$seconds" >>"$work/$1"
  lab_down
}
off=${sysctls/host: \{/host: \{offload: off, }
for _ in $(seq "$RUNS"); do
  join_up
  iperf 1 "ip netns exec $ref_a" "ip netns exec $ref_b" 10.0.0.2 -C cubic -t "$seconds" >>"$work/join"
  join_down
  veth_up 1500 on
  iperf 1 "ip netns exec $ref_a" "ip netns exec $ref_b" 10.0.0.2 -C cubic -t "$seconds" >>"$work/veth"
  veth_down
  for how in one off; do
    [ $how = off ] && kinds=$off || kinds=$sysctls
    stream $how h1 h2 10.0.0.2 <<YAML
topology:
  $kinds}
  generate: {star: {hosts: 2}}
YAML
  done
  stream two h1 h2 10.0.0.2 <<YAML
topology:
  $sysctls}
  generate: {dumbbell: {left: 1, right: 1}}
YAML
  stream spine h1 h2 10.0.0.2 <<YAML
topology:
  $sysctls}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1}}
YAML
done
gbps() { calc "$1/1e9" %.2f; }
join=$(median <"$work/join") veth=$(median <"$work/veth") one=$(median <"$work/one") off=$(median <"$work/off") two=$(median <"$work/two") spine=$(median <"$work/spine")
echo "| TCP, MTU 1500, one switch, offload | $(gbps "$one") Gb/s | $(gbps "$join") Gb/s bare TAP loop, super-packets unsplit | $(calc "$one/$join" %.2f) |"
echo "| the same | $(gbps "$one") Gb/s | $(gbps "$veth") Gb/s veth + bridge, all offloads | $(calc "$one/$veth" %.2f) |"
echo "| the same | $(gbps "$one") Gb/s | $(gbps "$off") Gb/s offload: off | $(calc "$one/$off" %.1f) |"
echo "| two switches, offload | $(gbps "$two") Gb/s | $(gbps "$one") Gb/s one switch | $(calc "$two/$one" %.2f) |"
echo "| leaf-spine, three switches, offload | $(gbps "$spine") Gb/s | $(gbps "$one") Gb/s one switch | $(calc "$spine/$one" %.2f) |"
