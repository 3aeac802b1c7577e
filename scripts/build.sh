#!/usr/bin/env bash
# build.sh: builds weft and the libraries that it needs beside it, into bin: bin/weft,
# bin/verbs for RDMA programs, bin/slowclock.so for programs in dilated labs.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin
go build -o bin/weft .
scripts/verbs.sh
scripts/slowclock.sh
