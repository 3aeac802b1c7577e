#!/usr/bin/env bash
# eqds.sh: one TCP stream at an MTU of MTU bytes (1500) with segmentation offload between two hosts
# at one switch, with and without EQDS tunnels, in turn in each run: with trimming, as in the paper,
# and with RTS, with PULLs of one packet, as in the paper, and of CREDIT (8). The links have the
# rate RATE, since PULLs are paced at that; it is more than the machine carries.
. "$(dirname "$0")/lib.sh"
seconds=${SECONDS_EACH:-5}
rate=${RATE:-20Gbps} mtu=${MTU:-1500} credit=${CREDIT:-8}
room=$((8 * mtu / 1000))KB deep=$((15 * mtu / 1000))KB # 8 packets, as in NDP, and 15
trimming="switch: {classes: {control: {dscp: [10, 48], priority: 6}, default: {weight: 1, limit: $room, trim: {preset: ndp, dscp: 10}}}}"
dropping="switch: {classes: {control: {dscp: 48, priority: 6}, default: {weight: 1, limit: $deep}}}"
kinds=${sysctls%\}}
stream() { # NAME EDGE QUEUES
  lab_up <<YAML
topology:
  $kinds, edge: $2}, $3}
  generate: {star: {hosts: 2, rate: $rate, delay: 1us, mtu: $mtu}}
YAML
  iperf 1 "in_lab h1" "in_lab h2" 10.0.0.2 -C cubic -t "$seconds" >>"$work/$1"
  lab_down
  engine_cpu >>"$work/$1.cpu"
  # The engine thread's time per received packet, in us: it depends less on the machine's other
  # load.
  jq '.timing.engine_cpu_cores * (.emulated | capture("(?<n>[0-9.]+)(?<u>[a-z]+)") | (.n|tonumber) * {us: 1, ms: 1e3, s: 1e6}[.u]) / ([.hosts[].offload.written] | max)' "$work/report" >>"$work/$1.each"
  jq -c ".ports[] | select(.edge) | [.edge.gauges[] | {(.name): .value}] | add" "$work/report" >>"$work/$1.gauges"
}
for _ in $(seq "$RUNS"); do
  stream plain none "switch: {classes: {control: {dscp: 48, priority: 6}, default: {weight: 1}}}"
  stream eqds eqds "$trimming"
  stream rts "{eqds: {preset: rts}}" "$dropping"
  stream eqds-$credit "{eqds: {credit-per-pull: $credit}}" "$trimming"
  stream rts-$credit "{eqds: {preset: rts, credit-per-pull: $credit}}" "$dropping"
done
gbps() { calc "$1/1e9" %.2f; }
plain=$(median <"$work/plain") each=$(median <"$work/plain.each")
line() { # WHAT NAME
  local got; got=$(median <"$work/$2")
  echo "| $1 | $(gbps "$got") Gb/s | $(gbps "$plain") Gb/s without | $(calc "$got/$plain" %.2f) |"
  got=$(median <"$work/$2.each")
  echo "| engine's time for a packet | $(calc "$got" %.2f) us | $(calc "$each" %.2f) us without | $(calc "$each/$got" %.2f) |"
}
line "TCP, MTU $mtu, links of $rate, offload, EQDS" eqds
line "the same, back end rts" rts
line "the same, $credit packets a PULL" eqds-$credit
line "the same, back end rts, $credit packets a PULL" rts-$credit
echo "| engine's share of a core, EQDS | $(median <"$work/eqds.cpu") | $(median <"$work/plain.cpu") without | |"
[ -z "${VERBOSE:-}" ] || { for f in plain eqds rts eqds-$credit rts-$credit; do echo $f; cat "$work/$f" "$work/$f.cpu" "$work/$f.each" "$work/$f.gauges"; done; }
