#!/usr/bin/env bash
# flaky.sh [OPTIONS] [PACKAGE...]: runs tests again and again, every second time beside busy
# loops, and lists every test that ever failed. Without packages it runs those with real
# time. It fails if a test failed.
#
#   -n N         runs of each package (20)
#   -b LOOPS     busy loops beside every second run (as many as cores)
#   -r REGEXP    only tests that match, as in go test -run
#   -t FLAGS     more flags of go test, such as "-race -short"
#   --part I/M   only the I-th of M parts of the packages, with 2 runs of each unless -n is given
#
# Randomised tests get another seed in each run. The output of failed runs stays in the
# directory that is printed at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin
runs="" loops=$(nproc) only=. flags="" part=""
while [ $# -gt 0 ]; do
  case $1 in
    -n) runs=$2; shift 2 ;;
    -b) loops=$2; shift 2 ;;
    -r) only=$2; shift 2 ;;
    -t) flags=$2; shift 2 ;;
    --part) part=$2; shift 2 ;;
    -h|--help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "flaky.sh: unknown option $1: see flaky.sh --help" >&2; exit 2 ;;
    *) break ;;
  esac
done
packages=("$@")
if [ ${#packages[@]} -eq 0 ]; then
  mapfile -t packages < <(go list ./e2e/... ./emu/lab ./emu/wall ./emu/doctor ./netns-lab)
fi
mapfile -t packages < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "${packages[@]}")
if [ -n "$part" ]; then
  [[ $part =~ ^([0-9]+)/([0-9]+)$ ]] || { echo "flaky.sh: --part $part: give a part such as 2/8" >&2; exit 2; }
  chosen=()
  for i in "${!packages[@]}"; do
    [ $((i % BASH_REMATCH[2] + 1)) -ne "${BASH_REMATCH[1]}" ] || chosen+=("${packages[$i]}")
  done
  packages=("${chosen[@]}")
  runs=${runs:-2}
fi
runs=${runs:-20}
out=$(mktemp -d "${TMPDIR:-/tmp}/weft-flaky-XXXXXX")
busy=()
quiet() { [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null; busy=(); }
trap quiet EXIT
trap 'exit 130' INT TERM

# print_failed LOG: the end of what each failed test printed.
print_failed() {
  jq -rR 'fromjson? | select(.Action == "fail" and .Test) | .Test' "$1" | while read -r test; do
    jq -jR --arg test "$test" 'fromjson? | select(.Action == "output" and .Test == $test) | .Output' "$1" | tail -n 40
  done
  # Without a failed test: it did not build, ran too long, or ended itself.
  jq -e -nR '[inputs | fromjson? | select(.Action == "fail" and .Test)] | length > 0' "$1" >/dev/null ||
    jq -rjR '. as $line | (fromjson? // {Output: ($line + "\n")}) | select(.Output) | .Output' "$1" | tail -n 40
}

for package in "${packages[@]}"; do
  for run in $(seq "$runs"); do
    load=quiet
    if [ $((run % 2)) -eq 0 ] && [ "$loops" -gt 0 ]; then
      load=busy
      for _ in $(seq "$loops"); do sh -c 'while :; do :; done' & busy+=($!); done
    fi
    log=$out/$(tr / - <<<"${package#*/*/*/}").$run.$load
    # shellcheck disable=SC2086 # FLAGS are several words
    if RAPID_SEED=0 go test -json -count=1 -vet=off -timeout 60m $flags -run "$only" "$package" >"$log" 2>&1; then
      jq -rR 'fromjson? | select(.Action == "pass" and .Test) | "passed \(.Package) \(.Test)"' "$log" >>"$out/all"
      rm "$log"
    else
      jq -rR --arg load $load 'fromjson? | select(.Action == "pass" and .Test) | "passed \(.Package) \(.Test)"' "$log" >>"$out/all"
      jq -rR --arg load $load 'fromjson? | select(.Action == "fail") | "failed-\($load) \(.Package) \(.Test // "(package)")"' "$log" >>"$out/all"
      echo "$package, run $run, $load: failed, see $log" >&2
      print_failed "$log" >&2
    fi
    quiet 2>/dev/null
    wait 2>/dev/null
  done
  echo "$package: $runs runs" >&2
done

echo "test: failed runs without load, beside $loops busy loops, of all runs"
sort "$out/all" | uniq -c | awk '
  { t = $3 " " $4; n[t] += $1; if ($2 == "failed-quiet") q[t] += $1; if ($2 == "failed-busy") b[t] += $1 }
  END { for (t in n) if (q[t] + b[t] > 0) { printf "%s: %d, %d of %d\n", t, q[t], b[t], n[t]; bad++ }
    for (t in n) all++
    printf "%d of %d tests failed at least once\n", bad, all; exit bad > 0 }'
status=$?
[ $status -eq 0 ] && rm -rf "$out" || echo "the output of failed runs is in $out"
exit $status
