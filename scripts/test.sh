#!/usr/bin/env bash
# test.sh [--quick | --all | --part I/M]: runs what must pass, and installs what that needs
# (scripts/packages.txt lists it, with the reasons).
#
#   (nothing)    gofmt, go vet, staticcheck, all tests, those with concurrency also with
#                the race detector, and the README's demo: 13 minutes on two cores
#   --quick      for the edit loop: gofmt, go vet and the tests without real programs;
#                needs neither root nor programs, and packages that did not change are
#                not tested again
#   --all        also what takes long: the quick forms of all papers, every fuzzer, the
#                tests with real time again and again beside busy loops, and a soak test
#   --part I/M   also the I-th of M parts of what --all adds
#
# Tests that need root are skipped, loudly, without it. The summary at the end says where
# all this ran, what was skipped and why, and what took long.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin

form=(-form plain)
case ${1:-} in
  "") ;;
  --quick) form=(-form quick) ;;
  --all) form=(-form all) ;;
  --part) form=(-form plain -part "${2:?--part: give a part such as 2/8}") ;;
  -h|--help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "test.sh: unknown option $1: see test.sh --help" >&2; exit 2 ;;
esac

if [ "${form[1]}" = quick ]; then
  scripts/install.sh go gcc || exit 1
  exec go run ./scripts/suite "${form[@]}"
fi

scripts/install.sh --for test || exit 1
# rdma-core's own tests and virtual machines: without them their tests are skipped, and the
# summary says so.
scripts/install.sh pyverbs || true
if scripts/install.sh qemu-system-x86_64; then
  echo "== the image of virtual machines"
  scripts/vm-image.sh >/dev/null || echo "VIRTUAL MACHINES ARE NOT TESTED: their image cannot be built"
else
  echo "VIRTUAL MACHINES ARE NOT TESTED: QEMU cannot be installed"
fi
exec go run ./scripts/suite "${form[@]}"
