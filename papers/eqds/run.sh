#!/usr/bin/env bash
# run.sh [--quick] [FIGURE...]: runs the figures of the paper, and prints the value of the
# paper, ours and the ratio. The full form also leaves result.json and the pictures in
# results/.
PAPER=eqds
. "$(dirname "$0")/../figures.sh"
quick=""
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
all=(fig8 fig9 fig13 fig14 fig20 fig22 fig7 fig19 fig10 fig16 fig17 fig18 memcached nginx)
[ $# -eq 0 ] || all=("$@")
for name in "${all[@]}"; do
	figure "$quick" "$name"
done
exit $failed
