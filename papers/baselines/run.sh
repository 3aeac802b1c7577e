#!/usr/bin/env bash
# run.sh NAME|all [quick]: runs the figures of baselines in virtual time and prints what
# is expected beside what comes out. Names are those of the directories here. The full
# form writes result.json and pictures there, and the tables of README.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH=$PATH:/usr/local/go/bin
[ $# -ge 1 ] && [ $# -le 2 ] && [ "${2:-quick}" = quick ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
scripts/install.sh go
go build -o bin/weft . && go build -o bin/baselines ./papers/baselines
exec bin/baselines -weft bin/weft ${2:+-quick} "$1"
