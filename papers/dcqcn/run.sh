#!/usr/bin/env bash
# run.sh [--quick] [FIGURE...]: runs the figures of DCQCN's paper in virtual time. The full form also leaves
# result.json and the pictures in results/.
PAPER=dcqcn
. "$(dirname "$0")/../figures.sh"
quick=""
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
all=(unfairness victim)
[ $# -eq 0 ] || all=("$@")
for name in "${all[@]}"; do
	figure "$quick" "$name"
done
exit $failed
