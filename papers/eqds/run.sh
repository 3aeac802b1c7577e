#!/usr/bin/env bash
# run.sh [--quick] [FIGURE...]: runs the figures of the paper, and prints the value of the
# paper, ours and the ratio. The full form also leaves result.json and the pictures in
# results/.
PAPER=eqds
. "$(dirname "$0")/../figures.sh"
quick=""
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
all=(fig8 fig14 fig10 fig17 fig18)
[ $# -eq 0 ] || all=("$@")
for name in "${all[@]}"; do
	figure "$quick" "$name"
done
exit $failed
