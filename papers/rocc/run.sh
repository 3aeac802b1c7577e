#!/usr/bin/env bash
# run.sh [--quick] [FIGURE...]: runs the figures of the paper and what is compared beside
# them, and prints the value of the paper, ours and the ratio. The full form also leaves
# result.json and the pictures in results/. fig13 and mixed have real programs: they take
# root and a machine with nothing else to do. model is Fig. 5 to 7.
PAPER=rocc
. "$(dirname "$0")/../figures.sh"
quick=""
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
all=(model fig8 fig8-md fig8-authors fig9 fig9-authors fig11 fig12a fig12b fig13 fig14-websearch fig14-websearch-pairs fig14-hadoop fig14-hadoop-pairs table3 table3-pairs fb-cdf fig19 tables mixed)
[ -n "$quick" ] || all+=(long/fig19-seconds)
[ $# -eq 0 ] || all=("$@")
for name in "${all[@]}"; do
	if [ "$name" = model ]; then
		echo "== model"
		dir=papers/rocc/figures
		[ -z "$quick" ] || dir=$(mktemp -d)
		go run ./papers/rocc/model -o "$dir" || failed=1
		[ -z "$quick" ] || rm -r "$dir"
	else
		figure "$quick" "$name"
	fi
done
exit $failed
