#!/usr/bin/env bash
# run.sh [--quick] [NAME...]: runs every system and baseline on one network, in virtual time
# and, as real, under ib_write_bw and iperf3, which takes root and a machine with nothing else
# to do.
PAPER=systems
. "$(dirname "$0")/../figures.sh"
quick=""
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
all=(systems real)
[ $# -eq 0 ] || all=("$@")
for name in "${all[@]}"; do
	figure "$quick" "$name"
done
exit $failed
