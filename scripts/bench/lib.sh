# lib.sh: functions shared by the benchmarks. Sourced, not run. Every benchmark
# prints lines of a Markdown table:
#   | what | figure (median of RUNS) | reference in the same run | ratio |
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin
RUNS=${RUNS:-5}

if [ "$(id -u)" -ne 0 ]; then echo "Benchmarks make network namespaces: run them as root." >&2; exit 1; fi
scripts/install.sh go ip iperf3 ping ethtool jq tc
go build -o bin/weft .
weft=$PWD/bin/weft
work=$(mktemp -d)
lab=bench$$
ref_a=$lab-a ref_b=$lab-b ref_s=$lab-s

finish() {
  $weft down $lab >/dev/null 2>&1 || true
  for n in $ref_a $ref_b $ref_s; do ip netns del "$n" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

# median of the numbers on standard input
median() { sort -g | awk '{a[NR]=$1} END {print a[int((NR+1)/2)]}'; }
# calc EXPRESSION FORMAT
calc() { awk "BEGIN {printf \"${2:-%.3f}\", $1}"; }

# The senders' sockets begin with reno and then take cubic (-C): sockets that
# begin with bbr, the default of some machines, keep its timer for every packet.
sysctls="kinds: {host: {sysctls: {net.ipv4.tcp_congestion_control: reno}}"
no_pacing() { ip netns exec "$1" sysctl -qw net.ipv4.tcp_congestion_control=reno; }

# lab_up YAML: starts a lab from this text, without the name line
lab_up() { { echo "name: $lab"; cat; } >"$work/lab.yaml"; $weft up -d "$work/lab.yaml" >/dev/null; }
lab_down() { $weft down --json $lab >"$work/report"; }
# from the report of the last lab that was stopped: the engine's share of a core,
# lateness in us
engine_cpu() { jq .timing.engine_cpu_cores "$work/report"; }
lateness() { jq -r ".timing.lateness.\"$1\" | capture(\"(?<n>[0-9.]+)(?<u>[a-z]+)\") | (.n|tonumber) * {ps: 1e-6, ns: 1e-3, us: 1, ms: 1e3, s: 1e6}[.u]" "$work/report"; }
in_lab() { local host=$1; shift; $weft exec -l $lab "$host" -- "$@"; }

# veth_up MTU OFFLOADS: makes the reference, two namespaces joined by veth pairs and
# a kernel bridge in a third. OFFLOADS is on or off.
veth_up() {
  local n
  for n in $ref_a $ref_b $ref_s; do ip netns add "$n"; done
  ip -n $ref_s link add name bridge0 type bridge
  ip -n $ref_s link set dev bridge0 mtu "$1" up
  for n in a b; do
    ip -n $ref_s link add name p$n mtu "$1" type veth peer name eth0 mtu "$1" netns $lab-$n
    ip -n $ref_s link set dev p$n master bridge0 up
    ip -n $lab-$n link set eth0 up
    if [ "$2" = off ]; then
      ip netns exec $ref_s ethtool -K p$n tx off rx off sg off tso off gso off gro off >/dev/null 2>&1 || true
      ip netns exec $lab-$n ethtool -K eth0 tx off rx off sg off tso off gso off gro off >/dev/null 2>&1 || true
    fi
  done
  ref_addresses
}
ref_addresses() {
  ip -n $ref_a addr add 10.0.0.1/24 dev eth0
  ip -n $ref_b addr add 10.0.0.2/24 dev eth0
  no_pacing $ref_a; no_pacing $ref_b
}
veth_down() { for n in $ref_a $ref_b $ref_s; do ip netns del "$n"; done; }

# iperf SKIP CLIENT SERVER ADDRESS FLAGS...: received bits/s of one run, from the
# receiver's per-second results without the first SKIP and the last; CLIENT and
# SERVER are commands that run a program inside a host. (iperf3's own -O reports a
# wrong sum on the receiver's side in version 3.12.)
iperf() {
  local skip=$1 client=$2 server=$3 address=$4 pid i; shift 4
  $server iperf3 -s -1 -J >"$work/server" 2>/dev/null &
  pid=$!
  for i in $(seq 100); do [ -n "$($server ss -Hltn sport = :5201)" ] && break; sleep 0.05; done
  $client iperf3 -4 -c "$address" "$@" >/dev/null
  wait $pid || true
  jq --argjson skip "$skip" '[.intervals[].sum | select(.seconds > 0.9)][$skip:-1] | (map(.bytes) | add) * 8 / (map(.seconds) | add)' "$work/server"
}
