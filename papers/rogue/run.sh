#!/usr/bin/env bash
# run.sh [--quick] [FIGURE...]: runs the figures of RoGUE and prints what must hold. The full
# form also leaves result.json and the pictures in results/. real runs ib_write_bw, which takes
# root and a machine with nothing else to do.
PAPER=rogue
. "$(dirname "$0")/../figures.sh"
quick=""
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
all=(table1 fig7 fig8 fig9 fig10 fig11 fig12 fig12b fig14 fig14-dctcp fig14b fig15 fig16 pauses work real)
[ $# -eq 0 ] || all=("$@")
for name in "${all[@]}"; do
	figure "$quick" "$name"
done
exit $failed
