#!/usr/bin/env bash
# test.sh: everything that has to pass. It installs what is missing, then runs
# gofmt, go vet, staticcheck, all tests (with the race detector where it does
# not change what is tested), and tries the README's demo. Tests that need
# root are skipped, loudly, without it. A summary is printed at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

scripts/install.sh go gcc ip ping arping iperf3 nginx curl tshark capinfos tcpdump jq dot || exit 1

failed=()
summary=()
# step NAME COMMAND...: runs a command, shows its output when it fails.
step() {
  local name=$1 start=$SECONDS; shift
  echo "== $name"
  if "$@" >"$out/log" 2>&1; then
    summary+=("ok    $name ($((SECONDS - start)) s)")
  else
    tail -n 200 "$out/log"
    summary+=("FAIL  $name ($((SECONDS - start)) s)")
    failed+=("$name")
  fi
  cat "$out/log" >>"$out/all"
}

formatted() { local bad; bad=$(gofmt -l $(git ls-files '*.go')); [ -z "$bad" ] || { echo "not formatted: $bad"; return 1; }; }

step "gofmt" formatted
step "go vet" go vet ./...
step "staticcheck" go tool staticcheck ./...
step "build" go build -o bin/weft .
# Packages that move real packets in real time run without the race detector
# first, because it slows the engine several times; then all run with it.
step "tests" go test -count=1 -p 1 -timeout 20m -v ./...
cp "$out/log" "$out/tests"
step "tests with the race detector" go test -count=1 -race -short -p 1 -timeout 20m ./...
if [ "$(id -u)" -eq 0 ]; then
  step "the README's demo" scripts/demo.sh
else
  summary+=("SKIP  the README's demo: it needs root")
fi

passed=$(grep -c '^ *--- PASS' "$out/tests")
skipped=$(grep -c '^ *--- SKIP' "$out/tests")
broken=$(grep -c '^ *--- FAIL' "$out/tests")
echo
echo "== skipped tests and why"
grep -A2 '^ *--- SKIP' "$out/tests" | grep -v '^--$' || echo "none"
echo
echo "== summary"
printf '%s\n' "${summary[@]}"
if [ ${#failed[@]} -gt 0 ] && [ "$broken" -eq 0 ]; then broken=${#failed[@]}; fi
echo "$passed passed, $broken failed, $skipped skipped"
[ ${#failed[@]} -eq 0 ]
