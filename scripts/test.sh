#!/usr/bin/env bash
# test.sh: everything that must pass. It installs missing programs, then runs gofmt,
# go vet, staticcheck, all tests (with the race detector where it does not affect
# what is tested), and tries the README's demo. Tests that need root are skipped,
# loudly, without it. Failed tests that depend on real time are run once more,
# loudly. A summary at the end says where all this ran, what was skipped and why, and
# what took long.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

scripts/install.sh go gcc ip ping arping iperf3 traceroute nginx wrk memcached memcaslap curl tshark capinfos tcpdump tmux jq dot scapy rping ibv_devinfo ib_write_bw ucx_perftest fi_pingpong mpirun mpicc ssh sshd ps || exit 1
# rdma-core's own tests: if they are not available, our test that runs them says so.
/usr/bin/python3 -c 'import pyverbs' 2>/dev/null || scripts/install.sh pyverbs || true
# Virtual machines: without QEMU or the image their tests are skipped, and the
# summary says so.
machines=""
scripts/install.sh qemu-system-x86_64 || machines="QEMU cannot be installed"
if [ -z "$machines" ]; then
  echo "== the image of virtual machines"
  scripts/vm-image.sh >"$out/image" 2>&1 || machines="their image cannot be built: $(tail -n 1 "$out/image")"
fi

failed=()
summary=()
# step NAME COMMAND...: runs a command, shows its output when it fails.
step() {
  local name=$1 start=$SECONDS; shift
  echo "== $name"
  if "$@" >"$out/log" 2>&1; then
    summary+=("ok    $name ($((SECONDS - start)) s)")
  else
    tail -n 200 "$out/log" | cut -c 1-500 | tee -a "$out/failures"
    summary+=("FAIL  $name ($((SECONDS - start)) s)")
    failed+=("$name")
  fi
  cat "$out/log" >>"$out/all"
}

formatted() { local bad; bad=$(gofmt -l $(git ls-files '*.go')); [ -z "$bad" ] || { echo "not formatted: $bad"; return 1; }; }

# count WHAT: how many tests of the last run passed, failed or were skipped.
count() { jq -rs "[.[] | select(.Action == \"$1\" and .Test)] | length" "$out/json"; }

# realtime matches the packages whose tests run in real time: they can fail if the
# machine takes processors away for a while.
realtime='/(e2e/[a-z]+|emu/lab|emu/wall|emu/doctor|netns-lab)$'

# second_chance FLAGS...: runs the failed tests once more, if all of them are in such
# packages. A bug in the program makes them fail again.
second_chance() {
  local again=() pkg names
  jq -e -s 'all(.[]; .Action != "build-fail")' "$out/json" >/dev/null || return 1
  mapfile -t again < <(jq -rs '[.[] | select(.Action == "fail") | {p: .Package, t: (.Test // "" | split("/")[0])}] | group_by(.p)[]
    | .[0].p + " " + ([.[].t | values | select(. != "")] | unique | join("|"))' "$out/json")
  [ ${#again[@]} -gt 0 ] || return 1
  for line in "${again[@]}"; do
    read -r pkg names <<<"$line"
    [[ $pkg =~ $realtime && -n $names ]] || return 1
  done
  for line in "${again[@]}"; do
    read -r pkg names <<<"$line"
    echo "== a second try: $pkg $names"
    go test -count=1 -vet=off -timeout 40m "$@" -run "^($names)\$" "$pkg" >"$out/again" 2>&1 || { tail -n 200 "$out/again" | cut -c 1-500 | tee -a "$out/failures"; return 1; }
    summary+=("NOTE  passed only at the second try: ${names//|/, } (what failed first is above)")
  done
}

# skips NAME: the skipped tests of a run, by reason, which is what they printed.
skips() {
  jq -rs --arg of "$1" '([.[] | select(.Action == "skip" and .Test) | .Package + " " + .Test] | unique) as $s
    | [.[] | select(.Action == "output" and .Test) | {k: (.Package + " " + .Test), o: .Output} | select(.k as $k | $s | index($k))]
    | group_by(.k)
    | map({k: (.[0].k | sub("^github.com/weftlab/weft/"; "")),
        why: ([.[].o | select(test("^(=== | *--- )") | not) | gsub("^\\s+|\\s+$"; "") | sub("^[a-z_0-9]+\\.go:[0-9]+: "; "") | select(. != "")] | join(" "))})
    | group_by(.why)[]
    | "\($of): \(if .[0].why == "" then "no reason given" else .[0].why end): \(length) tests: \(map(.k) | join(", "))"'
}

# tests NAME PACKAGES FLAGS...: runs the tests of these packages with these flags,
# shows the output of failed ones, and keeps the counts and the times.
passed=0 broken=0 skipped=0
tests() {
  local name=$1 packages=$2 start=$SECONDS verdict="ok   "; shift 2
  echo "== $name"
  local good=true p s f
  # shellcheck disable=SC2086 # PACKAGES are several words
  go test -json -count=1 -vet=off -timeout 40m "$@" $packages >"$out/json" 2>"$out/err" || good=false
  p=$(count pass) s=$(count skip) f=$(count fail)
  if ! $good; then
    cat "$out/err"
    # The output of failed tests and packages, and of builds that failed.
    jq -rs '([.[] | select(.Action == "fail") | .Package + " " + (.Test // "")] | unique) as $f
      | .[] | select(.Action == "build-output" or (.Action == "output" and ((.Package + " " + (.Test // "")) as $k | $f | index($k))))
      | .Output' "$out/json" | grep -v '^$' | cut -c 1-500 | tail -n 400 | tee -a "$out/failures"
    if second_chance "$@"; then
      p=$((p + f)) f=0
    else
      verdict="FAIL "
      failed+=("$name")
    fi
  fi
  passed=$((passed + p)) skipped=$((skipped + s)) broken=$((broken + f))
  summary+=("$verdict $name: $p passed, $f failed, $s skipped ($((SECONDS - start)) s)")
  jq -r --arg of "$name" 'select(.Test and .Elapsed and .Elapsed > 5 and (.Test | contains("/") | not)) | "\(.Elapsed) s  \(.Package | sub("^github.com/weftlab/weft/"; "")) \(.Test) (\($of))"' "$out/json" >>"$out/slow"
  skips "$name" <"$out/json" >>"$out/skips"
}

: >"$out/skips" >"$out/slow" >"$out/failures"
all=$(go list ./...)
timed=$(grep -E "$realtime" <<<"$all")
pure=$(grep -vE "$realtime" <<<"$all")
step "gofmt" formatted
step "go vet" go vet ./...
step "staticcheck" go tool staticcheck ./...
step "build" go build -o bin/weft .
step "build of the libraries for RDMA programs" scripts/verbs.sh
step "build of the library with a lab's clock" scripts/slowclock.sh
tests "tests of what is pure" "$pure"
# One package at a time: those with real programs need the cores. Tests in them that
# only wait for programs to end say so (t.Parallel) and run in parallel, after all
# others, a few at a time.
tests "tests with real programs and real time" "$timed" -p 1 -parallel "$((2 * $(nproc)))"
# The race detector makes the engine several times slower, so the tests with real
# programs are skipped here; they have just run without it. So are packages without
# concurrency, which scripts/raced finds from their source.
raced=$(go run ./scripts/raced) || { failed+=("scripts/raced"); raced=$all; }
tests "tests of what is pure, with the race detector" "$(grep -Fxf <(echo "$raced") <<<"$pure")" -race -short
tests "tests of real time, with the race detector" "$(grep -Fxf <(echo "$raced") <<<"$timed")" -p 1 -race -short
summary+=("NOTE  the race detector ran over $(wc -l <<<"$raced") of $(wc -l <<<"$all") packages: in the others nothing runs beside anything else")
if [ "$(id -u)" -eq 0 ]; then
  step "the README's demo" scripts/demo.sh
else
  summary+=("SKIP  the README's demo: it needs root")
fi
[ -z "$machines" ] || summary+=("SKIP  VIRTUAL MACHINES WERE NOT TESTED: $machines")

# setting FILE: the value of a kernel setting or a device, for the summary.
setting() { cat "$1" 2>/dev/null || echo "?"; }
mode() { stat -c %a "$1" 2>/dev/null || echo "not there"; }

echo
echo "== where"
echo "$(nproc) cores, $(uname -sr), user $(id -un), TCP $(setting /proc/sys/net/ipv4/tcp_congestion_control), /dev/net/tun $(mode /dev/net/tun), /dev/kvm $(mode /dev/kvm), load $(cut -d' ' -f1-3 /proc/loadavg)"
echo
echo "== skipped, and why"
sort "$out/skips"
[ -s "$out/skips" ] || echo "nothing"
echo
echo "== the slowest tests"
sort -rg "$out/slow" | awk 'NR <= 15'
if [ -s "$out/failures" ]; then
  echo
  echo "== what failed, also at first only"
  tail -n 100 "$out/failures"
fi
echo
echo "== summary"
printf '%s\n' "${summary[@]}"
# A failed step that is not a test counts as one failure.
if [ ${#failed[@]} -gt 0 ] && [ "$broken" -eq 0 ]; then broken=${#failed[@]}; fi
echo "$passed passed, $broken failed, $skipped skipped"
[ ${#failed[@]} -eq 0 ]
