#!/usr/bin/env bash
# eqds.sh: one TCP stream at an MTU of MTU bytes (1500) with segmentation offload between two hosts at one
# switch, through EQDS tunnels (trimming, as the paper's) and without, in turn in each run. The
# links have the rate RATE, since PULLs are paced at that; it is more than the machine carries.
. "$(dirname "$0")/lib.sh"
seconds=${SECONDS_EACH:-5}
rate=${RATE:-20Gbps} mtu=${MTU:-1500}
room=$((8 * mtu / 1000))KB deep=$((15 * mtu / 1000))KB # 8 packets, as NDP has, and 15
queues="switch: {classes: {control: {dscp: [10, 48], priority: 6}, default: {weight: 1, limit: $room, trim: {preset: ndp, dscp: 10}}}}"
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
  jq -c "[.ports[] | select(.edge) | .edge.gauges[] | {(.name): .value}] | add" "$work/report" >>"$work/$1.gauges" || true
}
for _ in $(seq "$RUNS"); do
  stream plain none "switch: {classes: {control: {dscp: 48, priority: 6}, default: {weight: 1}}}"
  stream eqds eqds "$queues"
  stream rts "{eqds: {preset: rts}}" "switch: {classes: {control: {dscp: 48, priority: 6}, default: {weight: 1, limit: $deep}}}"
done
gbps() { calc "$1/1e9" %.2f; }
plain=$(median <"$work/plain") eqds=$(median <"$work/eqds") rts=$(median <"$work/rts")
echo "| TCP, MTU $mtu, links of $rate, offload, EQDS | $(gbps "$eqds") Gb/s | $(gbps "$plain") Gb/s without | $(calc "$eqds/$plain" %.2f) |"
echo "| the same, back end rts | $(gbps "$rts") Gb/s | $(gbps "$plain") Gb/s without | $(calc "$rts/$plain" %.2f) |"
echo "| engine's share of a core, EQDS | $(median <"$work/eqds.cpu") | $(median <"$work/plain.cpu") without | |"
[ -z "${VERBOSE:-}" ] || { for f in plain eqds rts; do echo $f; cat "$work/$f" "$work/$f.cpu" "$work/$f.gauges"; done; }
