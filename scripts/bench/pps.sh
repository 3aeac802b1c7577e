#!/usr/bin/env bash
# pps.sh: how many UDP packets of 64 bytes (22 of payload) a second go through one
# switch, compared with the simplest loop between two TAPs, in turn in each run. The
# sender sends as fast as it can; the packets that arrive are counted.
. "$(dirname "$0")/lib.sh"
go build -o "$work/tapjoin" ./scripts/bench/tapjoin
# flood CLIENT SERVER: packets/s at the server over some seconds
flood() {
  local a b pid
  $2 iperf3 -s -1 >/dev/null 2>&1 & pid=$!
  for _ in $(seq 100); do [ -n "$($2 ss -Hltn sport = :5201)" ] && break; sleep 0.05; done
  $1 iperf3 -4 -c 10.0.0.2 -u -b 0 -l 22 -t 5 >/dev/null 2>&1 & local client=$!
  sleep 1
  a=$($2 cat /proc/net/dev | awk '/eth0/ {print $3}'); sleep 3; b=$($2 cat /proc/net/dev | awk '/eth0/ {print $3}')
  wait $client || true
  kill $pid 2>/dev/null || true; wait $pid 2>/dev/null || true
  calc "($b-$a)/3" %.0f; echo
}
for _ in $(seq "$RUNS"); do
  for offload in on off; do
    lab_up <<YAML
topology:
  kinds: {host: {offload: $offload}}
  generate: {star: {hosts: 2}}
YAML
    flood "in_lab h1" "in_lab h2" >>"$work/$offload"
    lab_down
  done
  ip netns add $ref_a; ip netns add $ref_b
  chrt -f 1 "$work/tapjoin" $ref_a $ref_b 1500 & join=$! # the scheduling that weft requests
  for n in a b; do
    until ip -n $lab-$n link set eth0 up 2>/dev/null; do sleep 0.02; done
    ip -n $lab-$n link set eth0 txqueuelen 10000
  done
  ref_addresses
  flood "ip netns exec $ref_a" "ip netns exec $ref_b" >>"$work/join"
  kill $join; wait $join 2>/dev/null || true; ip netns del $ref_a; ip netns del $ref_b
done
join=$(median <"$work/join")
for offload in on off; do
  got=$(median <"$work/$offload")
  echo "| 64-byte UDP, one switch, offload: $offload | $got packets/s | $join packets/s bare TAP loop | $(calc "$got/$join" %.2f) |"
done
