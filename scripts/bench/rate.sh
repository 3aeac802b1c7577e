#!/usr/bin/env bash
# rate.sh: iperf3's rate through a bottleneck of 10 Mb/s to 5 Gb/s, compared with the
# rate that the headers allow: at MTU 1500, 1448 bytes of payload in every 1538 bytes
# of wire (Ethernet 38, IPv4 20, TCP with timestamps 32). The bottleneck is between
# two switches. It also prints the engine's share of a core, and how late packets
# were.
. "$(dirname "$0")/lib.sh"
for try in ${TRIES:-10/1500 100/1500 1000/1500 5000/1500}; do
  rate=${try%/*} mtu=${try#*/}
  : >"$work/runs"; : >"$work/cpu"; : >"$work/late"
  for _ in $(seq "$RUNS"); do
    lab_up <<YAML
engine: {spin: ${SPIN:-0us}}
topology:
  ${sysctls/host: \{/host: \{join-window: ${JOIN:-20us}, }, link: {mtu: $mtu}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["s1:2", "s2:1"], rate: ${rate}Mbps, delay: 100us, from: {"s1:2": {queue: {limit: 4MB}}}}
    - {endpoints: ["s2:2", "h2:eth0"]}
YAML
    iperf 3 "in_lab h1" "in_lab h2" 10.0.0.2 -C cubic -t 9 >>"$work/runs"
    lab_down
    engine_cpu >>"$work/cpu"; lateness p99 >>"$work/late"
  done
  got=$(median <"$work/runs")
  may=$(calc "$rate*1e6*($mtu-52)/($mtu+38)" %.0f)
  echo "| goodput at ${rate} Mb/s, MTU $mtu | $(calc "$got/1e6") Mb/s | $(calc "$may/1e6") Mb/s that headers allow | $(calc "$got/$may" %.4f) |"
  echo "| engine and lateness at ${rate} Mb/s | $(calc "$(median <"$work/cpu")" %.2f) of a core | p99 $(calc "$(median <"$work/late")" %.0f) us late | |"
done
