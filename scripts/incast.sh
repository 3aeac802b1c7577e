#!/usr/bin/env bash
# incast.sh: the incast of eight senders of scripts/labs/incast-*.yaml in virtual
# time, without PFC, with PFC, and with PFC and DCQCN, in one table.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin
scripts/install.sh go jq
go build -o bin/weft .

# row prints what the report of a run says, one value a line.
row='
def value: capture("(?<n>[0-9.]+)(?<u>[a-zA-Z]+)") | (.n | tonumber) *
  {ps: 1e-9, ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, B: 1e-3, KB: 1, MB: 1e3, GB: 1e6}[.u]; # ms or KB
def fixed(n): . * pow(10; n) | round / pow(10; n) | tostring;
def gbps: . / 1e9 | fixed(2) + " Gb/s";
def ms: . | fixed(2) + " ms";
[.transfers[] | select(.to == "h11")] as $incast
| ($incast | map(.completion_p50_us / 1000) | sort) as $took
| [.ports[].classes[]?] as $classes
| (.ports[] | select(.name == "s2:h11")) as $queue
| .accounts.dropped,
  .transfer_sums.retransmitted_packets,
  .transfer_sums.timeouts,
  ([$classes[].pause_rx] | add),
  ([.ports[] | select(.name == "s1:s2").classes[].paused_time | value] | add | ms),
  .accounts.marked,
  .transfer_sums.cnps,
  ($queue.queue_mean_bytes / 1e3 | fixed(0) + " KB"),
  ($queue.queue_max | value | fixed(0) + " KB"),
  (($incast | map(.payload_bytes) | add * 8) / ($incast | map(.end_s) | max) | gbps),
  ($incast | map(.goodput_bps) | (add * add) / (length * (map(. * .) | add)) | fixed(3)),
  ($took[length / 2 - 1 | ceil] | ms),
  ($took | max | ms),
  (.transfers[] | select(.transfer == "victim").goodput_bps | gbps),
  (.transfers[] | select(.transfer == "late-victim").goodput_bps | gbps)
'
run() { bin/weft sim --json "scripts/labs/incast-$1.yaml" | jq -r "$row"; }
cat <<'NAMES' | paste -d'|' - <(echo 'no PFC'; run lossy) <(echo PFC; run pfc) <(echo 'PFC and DCQCN'; run dcqcn) | awk -F'|' '{ printf "%-23s %-11s %-11s %s\n", $1, $2, $3, $4 }'

packets dropped
retransmitted
timeouts
pauses, all ports
s1:s2 was paused for
marked
CNPs
queue at s2:h11, mean
queue at s2:h11, max
goodput of the incast
Jain of its eight
completion, p50
completion, max
victim
late victim
NAMES
