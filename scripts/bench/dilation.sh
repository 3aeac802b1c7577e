#!/usr/bin/env bash
# dilation.sh: one lab at dilation 1, 10 and 100. iperf3, with the lab's clock, sends through a
# bottleneck of 100 Mb/s that marks: two senders of 60 Mb/s each over UDP, then two over TCP.
# Goodput and the share of marked packets should not depend on the dilation; the table has both and
# their ratio to the values at dilation 1. SECONDS_EMULATED (2) is how long they send; at dilation
# 100 that takes a hundred times as many seconds. ONLY=udp or tcp runs only one of them. TCP's
# results with a queue that marks at random differ from run to run.
. "$(dirname "$0")/lib.sh"
seconds=${SECONDS_EMULATED:-2}
root=$(cd "$(dirname "$0")/../.." && pwd)
[ -e "$(dirname "$weft")/slowclock.so" ] || "$root/scripts/slowclock.sh" "$(dirname "$weft")" >&2

# traffic FLAGS...: both pairs at once; prints goodput in b/s
traffic() {
  local i pids=()
  for i in 1 2; do
    $weft exec -l $lab --dilated "h$((i + 2))" -- iperf3 -s -1 >/dev/null &
    pids+=($!)
  done
  for i in 1 2; do until $weft exec -l $lab "h$((i + 2))" -- ss -Hltn sport = :5201 | grep -q LISTEN; do sleep 0.1; done; done
  for i in 1 2; do
    $weft exec -l $lab --dilated "h$i" -- iperf3 -4 -c "h$((i + 2))" -J "$@" >"$work/client$i" &
    pids+=($!)
  done
  wait "${pids[@]}"
  jq -s '[.[].end.sum_received.bits_per_second] | add' "$work"/client[12]
}

# measure NAME FLAGS...
measure() {
  local name=$1 d goodput share; shift
  for d in ${DILATIONS:-1 10 100}; do
    cat >"$work/lab.yaml" <<YAML
name: $lab
topology:
  kinds:
    host: {sysctls: {net.ipv4.tcp_congestion_control: reno, net.ipv4.tcp_ecn: 1}, queue: {limit: 4MB}}
    switch: {queue: {limit: 1MB, mark: {red: {kmin: ${KMIN:-10KB}, kmax: ${KMAX:-1MB}, pmax: ${PMAX:-100%}}}}}
    link: {rate: 200Mbps, delay: 100us}
  generate: {dumbbell: {left: 2, right: 2, bottleneck: {rate: 100Mbps, delay: ${DELAY:-2ms}}}}
YAML
    $weft up -d --dilation "$d" "$work/lab.yaml" >/dev/null
    goodput=$(traffic "$@")
    lab_down
    share=$(jq '.ports[] | select(.name == "s1:s2") | .marked / .tx_packets' "$work/report")
    [ -n "${first:-}" ] || { first=$goodput; firstshare=$share; }
    echo "| $name, dilation $d | $(calc "$goodput/1e6") Mb/s | $(calc "$goodput/$first" %.4f) | $(calc "100*$share") % marked | $(calc "$share/$firstshare" %.4f) | late p99 $(calc "$(lateness p99)" %.2f) us |"
  done
  unset first firstshare
}

echo "| what | goodput | to dilation 1 | marks | to dilation 1 | lateness, emulated |"
echo "| --- | --- | --- | --- | --- | --- |"
for what in ${ONLY:-udp tcp}; do
  case $what in
    udp) KMIN=10KB KMAX=1MB PMAX=100% measure "UDP, RED" -u -b 60M -l 1400 -S 2 -n "$(calc "$seconds*60e6/8" %d)" ;;
    tcp) KMIN=30KB KMAX=90KB PMAX=10% measure "TCP, RED" -C reno -t "$(calc "$seconds" %d)" ;;
  esac
done
