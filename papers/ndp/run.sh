#!/usr/bin/env bash
# run.sh [--quick] [FIGURE...]: runs NDP beside TCP and DCTCP in virtual time. The full form also leaves
# result.json and the pictures in results/.
PAPER=ndp
. "$(dirname "$0")/../figures.sh"
quick=""
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
all=(permutation incast)
[ $# -eq 0 ] || all=("$@")
for name in "${all[@]}"; do
	figure "$quick" "$name"
done
exit $failed
