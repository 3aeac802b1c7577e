#!/usr/bin/env bash
# rdma-incast.sh [CAPTURE]: the incast of eight of scripts/labs/rdma-incast-*.yaml in
# wall-clock time, with Debian's ib_write_bw: without PFC, with PFC, and with PFC and
# DCQCN, in one table. If CAPTURE is given, CAPTURE-pfc.pcapng and
# CAPTURE-dcqcn.pcapng are left for Wireshark. It takes about half a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin
capture=${1:-}
scripts/need-labs.sh
scripts/install.sh go gcc jq ib_write_bw
go build -o bin/weft .
scripts/verbs.sh
weft=bin/weft
out=$(mktemp -d)
lab='' capturing=''

# Seconds that each ib_write_bw sends, and how many it ignores at the beginning and at the end.
duration=5 margin=1

cleanup() {
  [ -z "$capturing" ] || kill "$capturing" 2>/dev/null || true
  [ -z "$lab" ] || $weft down "$lab" >/dev/null 2>&1 || true
  rm -rf "$out"
}
trap cleanup EXIT

# bw HOST ARGUMENTS...: runs ib_write_bw in a host, for at most a minute.
bw() {
  local host=$1; shift
  timeout 60 $weft exec -l "$lab" "$host" -- ib_write_bw -x 0 -F -D $duration -f $margin --report_gbits "$@"
}

# The eight have a window of 1 MB each. With perftest's default of 8 MB they hinder each
# other more when packets are lost: one keeps the link, and the others give up after the
# maximum number of timeouts. The local ACK timeout is 134 ms, because with PFC a packet
# waits up to 30 ms in each switch, and its acknowledgement for the rest of its message.
eight=(-t 16 --qp-timeout 15)

# transfer NAME FROM TO PORT ARGUMENTS...: starts a server and, when it listens, its client.
transfer() {
  local name=$1 from=$2 to=$3 port=$4; shift 4
  bw "$to" -p "$port" "$@" >"$out/$name.server" 2>&1 &
  {
    for _ in $(seq 100); do
      [ -z "$($weft exec -l "$lab" "$to" -- ss -Hltn "sport = :$port")" ] || break
      sleep 0.1
    done
    bw "$from" -p "$port" "$@" "$to" >"$out/$name" 2>&1 || echo gave-up >>"$out/$name"
  } &
}

# messages NAME: how many messages of 64 KiB a transfer has sent in the time between
# the margins. perftest's own Gb/s need its measurement of the processor's frequency,
# which fails on a busy machine.
messages() { awk '$1 == 65536 { n = $2 } /gave-up/ { n = 0 } END { print n + 0 }' "$out/$1"; }

# row prints the values of a lab's report, one per line, given the messages of the eight
# and of the victim.
row='
def value: capture("(?<n>[0-9.]+)(?<u>[a-zA-Z]+)") | (.n | tonumber) *
  {ps: 1e-9, ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, B: 1e-3, KB: 1, MB: 1e3, GB: 1e6}[.u]; # ms or KB
def fixed(n): . * pow(10; n) | round / pow(10; n) | tostring;
def mbps: . * 65536 * 8 / $seconds / 1e6 | fixed(0) + " Mb/s";
def sum(f): [.nics[].counters | f] | add;
[.ports[].classes[]?] as $classes
| (.ports[] | select(.name == "s2:h10")) as $queue
| .accounts.dropped,
  sum(.retransmitted_packets),
  sum(.packet_seq_err),
  sum(.local_ack_timeout_err),
  ([$classes[].pause_rx_frames] | add),
  ([.ports[] | select(.name == "s1:s2").classes[].paused_time | value] | add | fixed(0) + " ms"),
  .accounts.marked,
  sum(.rp_cnp_handled),
  ($queue.queue_mean_bytes / 1e3 | fixed(0) + " KB"),
  ($queue.queue_max | value | fixed(0) + " KB"),
  ($sent | add | mbps),
  ($sent | min | mbps),
  ($sent | max | mbps),
  ($sent | if add == 0 then "-" else (add * add) / (length * (map(. * .) | add)) | fixed(3) end),
  ($victim | mbps),
  ($sent | map(select(. == 0)) | length),
  (.timing.lateness.p50 | value | fixed(2) + " ms"),
  (.timing.lateness.p99 | value | fixed(2) + " ms"),
  (.timing.stood // "0ms" | value | fixed(0) + " ms")
'

# run NAME: runs a lab, and writes its row into $out/NAME.row.
run() {
  local name=$1 i sent=()
  $weft up -d "scripts/labs/rdma-incast-$name.yaml" >"$out/up" 2>&1 || { cat "$out/up" >&2; return 1; }
  lab=rdma-incast-$name
  if [ -n "$capture" ] && [ "$name" != lossy ]; then
    # 30000 packets are some seconds at the two ports; 128 bytes are all headers.
    $weft capture -l "$lab" s2:h10 s2:s1 -s 128 -c 30000 -w "$capture-$name.pcapng" 2>/dev/null &
    capturing=$!
  fi
  for i in 1 2 3 4 5 6 7 8; do transfer "h$i" "h$i" h10 $((18514 + i)) "${eight[@]}"; done
  transfer victim h9 h11 18523
  for job in $(jobs -p); do [ "$job" = "$capturing" ] || wait "$job" || true; done
  if [ -n "$capturing" ]; then
    kill -INT "$capturing" 2>/dev/null || true
    wait "$capturing" || true
    capturing=
  fi
  for i in 1 2 3 4 5 6 7 8; do sent+=("$(messages "h$i")"); done
  $weft down "$lab" --json >"$out/report"
  lab=
  if [ "$name" != lossy ] && cat "$out"/h? "$out/victim" | grep -q gave-up; then
    echo "ib_write_bw has failed where nothing is lost:" >&2
    grep -H . $(grep -l gave-up "$out"/h? "$out/victim") >&2
    return 1
  fi
  jq -r --argjson seconds $((duration - 2 * margin)) --argjson victim "$(messages victim)" \
    --argjson sent "[$(IFS=,; echo "${sent[*]}")]" "$row" "$out/report" >"$out/$name.row"
}

for name in lossy pfc dcqcn; do run $name; done
cat <<'NAMES' | paste -d'|' - <(echo 'no PFC'; cat "$out/lossy.row") <(echo PFC; cat "$out/pfc.row") <(echo 'PFC and DCQCN'; cat "$out/dcqcn.row") | awk -F'|' '{ printf "%-23s %-11s %-11s %s\n", $1, $2, $3, $4 }'

packets dropped
sent again
NAKs
timeouts
pause frames, all ports
s1:s2 was paused for
marked
CNPs
queue at s2:h10, mean
queue at s2:h10, max
goodput of the eight
that of the least
that of the most
Jain of the eight
victim
gave up
lateness, p50
lateness, p99
the clock stood still
NAMES
