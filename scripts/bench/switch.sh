#!/usr/bin/env bash
# switch.sh: the cost of a switch's hop in virtual time when everything is
# configured: eight classes with strict priority and DWRR, a shared buffer with
# reserves and dynamic thresholds, PFC with headroom and a watchdog, RED, trimming;
# with 64 ports. The chain has a host and two switches; the host's hop is plain in
# all cases, and is subtracted.
. "$(dirname "$0")/lib.sh"
go test -c -o "$work/switches.test" ./switches
for _ in $(seq "$RUNS"); do
  "$work/switches.test" -test.run xxx -test.bench 'Chain/modelled' -test.benchtime 1000000x | awk '/ns\/op/ {sub(/^BenchmarkChain\//, "", $1); sub(/-[0-9]+$/, "", $1); print $1, $3}' >>"$work/ns"
done
of() { awk -v n="$1" '$1 == n {print $2}' "$work/ns" | median; }
# hop NAME: a switch's hop in ns; three plain hops are the plain chain
hop() { calc "($(of "$1")-$(of modelled)/3)/2" %.0f; }
row() { echo "| $1 | $(hop "$2") ns a hop | $(hop "$4") ns $3 | $(calc "$(hop "$2")/$(hop "$4")" %.2f) |"; }
row "switch with everything, short queues" "modelled,_everything" "plain" modelled
row "switch with everything, queues of 32 packets" "modelled,_everything,_queueing" "plain, computed ahead: one event a packet" "modelled,_queueing"
row "the same" "modelled,_everything,_queueing" "plain, event by event" "modelled,_queueing,_event_by_event"
row "the same with 64 ports" "modelled,_everything,_queueing,_64_ports" "plain, event by event" "modelled,_queueing,_event_by_event"
