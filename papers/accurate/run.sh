#!/usr/bin/env bash
# run.sh [--quick] [FIGURE...]: runs the figures of the paper, and prints the value of the
# paper, ours and the ratio. The full form also leaves result.json and the pictures in
# results/.
PAPER=accurate
. "$(dirname "$0")/../figures.sh"
quick=""
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
all=(fig3 fig3b fig4 fig3-programs fig4-programs)
[ $# -eq 0 ] || all=("$@")
for name in "${all[@]}"; do
	figure "$quick" "$name"
done
exit $failed
