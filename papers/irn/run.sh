#!/usr/bin/env bash
# run.sh [--quick] [FIGURE...]: runs what Mittal et al. compare, and what they do not, and
# prints what must hold. The full form also leaves result.json and the pictures in results/.
# real has real programs: it takes root and a machine with nothing else to do.
PAPER=irn
. "$(dirname "$0")/../figures.sh"
quick=""
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
all=(pfc factors timeouts incast load rates hosts buffers resilient headers spraying real)
[ $# -eq 0 ] || all=("$@")
for name in "${all[@]}"; do
	figure "$quick" "$name"
done
exit $failed
