# figures.sh: runs the figures of a paper. Sourced by papers/*/run.sh, which are in the
# directory PAPER and name their figures.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PATH:/usr/local/go/bin
scripts/install.sh go jq || exit
go build -o bin/weft . || exit
failed=0

# table prints what the paper has a value of, and what was expected.
table() {
	jq -r '
		def short: if . == null then "-" else
			(fabs | if . >= 1e9 then [1e9, "G"] elif . >= 1e6 then [1e6, "M"] elif . >= 1e3 then [1e3, "K"] elif . < 0.1 then [1e-3, "m"] else [1, ""] end) as $u
			| "\(. / $u[0] * 1000 | round / 1000)\($u[1])" end;
		(["measure", "at", "paper", "ours", "ratio", "source"],
		 (.summaries[] | select(.paper != null) | [.measure, ((.levels // []) + [.bin // empty] | join(" ")), (.paper.value | short), (.value | short), (.ratio | short), .paper.source]))
		| @tsv' "$1" | column -t -s $'\t'
	jq -r '.expectations[] | (if .held then "holds  " else "FAILS  " end) + .text' "$1"
}

# figure QUICK NAME: runs papers/PAPER/NAME.yaml. With QUICK --quick it runs the small form
# and leaves nothing; else result.json and the pictures go to results/, and the tables of the
# pages are written from the results.
figure() {
	local quick=$1 name=$2 out kept
	out=papers/$PAPER/$(basename "$name").result
	[ -z "$quick" ] || out=$(mktemp -d)
	rm -f "$out"/*.png
	bin/weft experiment "papers/$PAPER/$name.yaml" -o "$out" $quick >"$out.log" 2>&1 || failed=1
	echo "== $name"
	if [ -e "$out/result.json" ]; then
		table "$out/result.json"
	else
		cat "$out.log"
	fi
	if [ -z "$quick" ]; then
		kept=papers/$PAPER/results/$(basename "$name")
		rm -rf "$kept" && mkdir -p "$kept" && cp "$out"/result.json "$out"/*.png "$kept/" || failed=1
		go run ./papers/tables || failed=1
		rm "$out.log"
	else
		rm -r "$out" "$out.log"
	fi
}
