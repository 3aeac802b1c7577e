#!/usr/bin/env bash
# run.sh [--quick] [FIGURE...]: runs the figures and claims that the baselines must meet, in
# virtual time, and prints what is expected beside what comes out. The full form also leaves
# result.json and the pictures in results/.
PAPER=baselines
. "$(dirname "$0")/../figures.sh"
quick=""
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
all=(convergence hpcc-incast timely dctcp qcn)
[ $# -eq 0 ] || all=("$@")
for name in "${all[@]}"; do
	figure "$quick" "$name"
done
exit $failed
