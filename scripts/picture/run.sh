#!/usr/bin/env bash
# run.sh: makes docs/images/run.png, the README's picture: two real iperf3
# transfers share the 200 Mb/s bottleneck of scripts/labs/two-switches.yaml, the
# second from 2 s to 6 s.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH=$PATH:/usr/local/go/bin
go build -o bin/weft . && go build -o bin/picture ./scripts/picture
lab=two-switches
trap 'bin/weft down $lab >/dev/null 2>&1 || true' EXIT
bin/weft up -d scripts/labs/$lab.yaml
for server in h3 h4; do bin/weft exec -l $lab $server -- iperf3 -s -D -1; done
sleep 0.5
bin/picture $lab s1:3 9 docs/images/run.png & picture=$!
sleep 0.5
bin/weft exec -l $lab h1 -- iperf3 -c h3 -C cubic -t 7.5 >/dev/null & first=$!
sleep 2
bin/weft exec -l $lab h2 -- iperf3 -c h4 -C cubic -t 4 >/dev/null
wait $first $picture
