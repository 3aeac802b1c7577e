#!/usr/bin/env bash
# incast.sh: the incast of eight senders of scripts/labs/incast-*.yaml in virtual
# time, without PFC, with PFC, and with PFC and DCQCN: scripts/experiments/incast.yaml.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin
scripts/install.sh go
go build -o bin/weft .
bin/weft experiment scripts/experiments/incast.yaml
