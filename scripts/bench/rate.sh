#!/usr/bin/env bash
# rate.sh: what iperf3 gets through a bottleneck of 10 Mb/s, 100 Mb/s and
# 1 Gb/s, against what the headers allow: at MTU 1500, 1448 bytes of payload in
# every 1538 bytes of wire (Ethernet 38, IPv4 20, TCP with timestamps 32). The
# bottleneck is between two switches. 1 Gb/s is tried with MTU 9000 as well:
# 81,000 packets a second of MTU 1500 are more than slow machines carry.
. "$(dirname "$0")/lib.sh"
for try in ${TRIES:-10/1500 100/1500 1000/1500 1000/9000}; do
  rate=${try%/*} mtu=${try#*/}
  lab_up <<YAML
engine: {spin: ${SPIN:-0us}}
topology:
  $sysctls, link: {mtu: $mtu}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["s1:2", "s2:1"], rate: ${rate}Mbps, delay: 100us, from: {"s1:2": {queue: {limit: 1MB}}}}
    - {endpoints: ["s2:2", "h2:eth0"]}
YAML
  for _ in $(seq "$RUNS"); do iperf 3 "in_lab h1" "in_lab h2" 10.0.0.2 -C cubic -t 9; done >"$work/runs"
  lab_down
  got=$(median <"$work/runs")
  may=$(calc "$rate*1e6*($mtu-52)/($mtu+38)" %.0f)
  echo "| goodput at ${rate} Mb/s, MTU $mtu | $(calc "$got/1e6") Mb/s | $(calc "$may/1e6") Mb/s that headers allow | $(calc "$got/$may" %.4f) |"
done
