#!/usr/bin/env bash
# fuzz.sh [--part I/M] [TIME] [NAME-PATTERN]: runs the fuzzers of the tree one after the other,
# each for TIME (default 10s), or only those whose "package name" matches the regular
# expression, or every M-th from the I-th. It prints for each how fast it was, how many inputs
# reached something new, and whether it passed, and fails if one has failed. Go leaves the input
# that failed in testdata/fuzz: it belongs there, together with the fix, as a test that
# `go test` runs.
# fuzz.sh --list [NAME-PATTERN]: lists them.
# PARALLEL is the number of workers, one per core by default.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin
log=$(mktemp)
trap 'rm -f "$log"' EXIT

list=false time=10s part=1/1
case ${1:-} in
--list) list=true; shift ;;
--part) part=${2:?--part: give a part such as 2/8}; shift 2 ;;
-h|--help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
-*) echo "fuzz.sh: unknown option $1: see fuzz.sh --help" >&2; exit 2 ;;
esac
[[ $part =~ ^([0-9]+)/([1-9][0-9]*)$ ]] || { echo "fuzz.sh: --part $part: give a part such as 2/8" >&2; exit 2; }
first=${BASH_REMATCH[1]} step=${BASH_REMATCH[2]}
case ${1:-} in
[0-9]*) time=$1; shift ;;
esac
pattern=${1:-.}

# fuzzers prints "package name" of each.
fuzzers() {
  local dirs names=() first second
  mapfile -t dirs < <(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's,^,./,')
  go test -list '^Fuzz' "${dirs[@]}" | while read -r first second _; do
    case $first in
    ok) printf "${second#github.com/weftlab/weft/} %s\n" "${names[@]}"; names=() ;;
    Fuzz*) names+=("$first") ;;
    *) echo "$first $second" >&2 ;;
    esac
  done
}

found=$(fuzzers) || exit 1
found=$(grep -E -- "$pattern" <<<"$found") || { echo "no fuzzer matches $pattern" >&2; exit 1; }
found=$(awk -v first="$first" -v step="$step" '(NR - first) % step == 0' <<<"$found")
if $list; then
  echo "$found"
  exit
fi

# figures prints the executions per second and the new inputs of a log, whose lines are
# fuzz: elapsed: 1m10s, execs: 325017 (108336/sec), new interesting: 11 (total: 202)
figures() {
  awk -F'[ ,]+' '
    function seconds(d,   s) {
      for (; match(d, /^[0-9]+[hms]/); d = substr(d, RLENGTH + 1)) s += substr(d, 1, RLENGTH - 1) * (d ~ /^[0-9]+h/ ? 3600 : d ~ /^[0-9]+m/ ? 60 : 1)
      return s
    }
    /^fuzz: elapsed: .* new interesting: / { took = seconds($3); execs = $5; new = $9 }
    END { printf "%.0f %d\n", (took > 0 ? execs / took : 0), new }' "$log"
}

# Go would try to make every input that reaches something new smaller, for up to a minute each,
# and meanwhile look for no others: 10 tries are enough.
failed=()
printf '%-24s %-18s %10s %8s  %s\n' package fuzzer execs/s new verdict
while read -r package name; do
  verdict=ok
  go test -run='^$' -fuzz="^$name\$" -fuzztime="$time" -fuzzminimizetime=10x -parallel="${PARALLEL:-$(nproc)}" "./$package" >"$log" 2>&1 </dev/null || verdict=FAIL
  read -r rate new < <(figures)
  printf '%-24s %-18s %10s %8s  %s\n' "$package" "$name" "$rate" "$new" "$verdict"
  if [ $verdict = FAIL ]; then
    failed+=("$package $name")
    cut -c 1-500 "$log" | grep -v '^fuzz: elapsed' | head -n 100
    sed -nE "s,.*Failing input written to (.*),the input: $package/\1,p" "$log"
  fi
done <<<"$found"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
