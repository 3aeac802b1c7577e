#!/usr/bin/env bash
# format.sh: names the files that gofmt would change, and fails if there are any.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin
bad=$(gofmt -l $(git ls-files --cached --others --exclude-standard '*.go'))
[ -z "$bad" ] || { printf 'not formatted, run gofmt -w on:\n%s\n' "$bad"; exit 1; }
