#!/usr/bin/env bash
# rtt.sh: ping's round trips over one switch, with a configured round trip of 2 ms
# and of 0, and over veth + kernel bridge in the same run. The engine spins for SPIN
# (50us) instead of sleeping, the option for exact timing; and once for longer than
# the interval between pings, so that it never sleeps.
. "$(dirname "$0")/lib.sh"
pings=${PINGS:-1000}
interval=${INTERVAL:-0.004}
# quantiles of the round trips in µs: p50 p99
quantiles() { sed -n 's/.*time=\([0-9.]*\) ms/\1/p' | sort -g | awk '{a[NR]=$1*1000} END {print a[int((NR+1)/2)], a[int(NR*0.99)]}'; }
ping_lab() { # delay of each link, spin
  lab_up <<YAML
engine: {spin: $2}
topology:
  kinds: {link: {delay: $1}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
YAML
  in_lab h1 ping -4 -c 20 -i "$interval" -q h2 >/dev/null
  in_lab h1 ping -4 -c "$pings" -i "$interval" h2 | quantiles
  lab_down
}
ping_veth() {
  veth_up 1500 on
  ip netns exec $ref_a ping -c 20 -i "$interval" -q 10.0.0.2 >/dev/null
  ip netns exec $ref_a ping -c "$pings" -i "$interval" 10.0.0.2 | quantiles
  veth_down
}
for _ in $(seq "$RUNS"); do
  echo "$(ping_lab 500us ${SPIN:-50us}) $(ping_lab 0us ${SPIN:-50us}) $(ping_veth) $(ping_lab 0us 50ms)"
done >"$work/runs"
col() { awk "{print \$$1}" "$work/runs" | median; }
echo "| ping, configured 2 ms, median | $(col 1) us | 2000 us | $(calc "$(col 1)/2000" %.4f) |"
echo "| ping, configured 2 ms, p99 | $(col 2) us | 2000 us | $(calc "$(col 2)/2000" %.4f) |"
echo "| ping, configured 0, median | $(col 3) us | $(col 5) us over veth + bridge | $(calc "$(col 3)/$(col 5)" %.2f) |"
echo "| ping, configured 0, engine never asleep, median | $(col 7) us | $(col 5) us over veth + bridge | $(calc "$(col 7)/$(col 5)" %.2f) |"
echo "| ping, configured 0, p99 | $(col 4) us | $(col 6) us over veth + bridge | $(calc "$(col 4)/$(col 6)" %.2f) |"
