#!/usr/bin/env bash
# demo.sh: a lab of four real hosts behind two emulated switches; iperf3 runs
# across it. It prints goodput, marks, drops and how late the emulator was,
# leaves demo.pcapng for Wireshark, and removes everything else. Then an incast of
# emulated RDMA NICs in virtual time: lossy, with PFC, with PFC and DCQCN.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin

if [ "$(id -u)" -ne 0 ]; then
  echo "Network namespaces need root: run sudo $0" >&2
  exit 1
fi
scripts/install.sh go ip iperf3 ping

echo "== building bin/weft"
go build -o bin/weft .
weft=bin/weft
lab=two-switches
capture=demo.pcapng

cleanup() {
  if [ -n "${capturing:-}" ]; then kill "$capturing" 2>/dev/null || true; fi
  # Only the lab that this script started is its to end.
  if [ -n "${started:-}" ]; then $weft down $lab >/dev/null 2>&1 || true; fi
}
trap cleanup EXIT

echo "== starting the lab of scripts/labs/$lab.yaml"
$weft up -d scripts/labs/$lab.yaml
started=yes
$weft ps $lab

echo "== capturing the bottleneck, s1:3, into $capture (96 bytes of each packet)"
$weft capture -l $lab s1:3 --out -s 96 -w $capture &
capturing=$!

echo "== ping from h1 to h3 across both switches"
$weft exec -l $lab h1 -- ping -q -c 20 -i 0.05 h3 | tail -n 2

echo "== iperf3 from h1 to h3 and from h2 to h4 at once, 5 s, TCP with ECN over a 200 Mb/s bottleneck"
for server in h3 h4; do $weft exec -l $lab $server -- iperf3 -s -D -1; done
sleep 0.5
$weft exec -l $lab h2 -- iperf3 -c h4 -C cubic -t 5 -i 0 >/dev/null &
other=$!
$weft exec -l $lab h1 -- iperf3 -c h3 -C cubic -t 5 -i 1
wait $other

kill -INT $capturing; wait $capturing || true; capturing=
echo "== ending the lab: what happened to every packet, and how late the emulator was"
$weft down $lab
started=
echo "== $capture: open it in Wireshark; marked and dropped packets carry a comment"
ls -l $capture

echo "== emulated RDMA NICs: eight of them WRITE 10 MB each to one, in virtual time"
scripts/incast.sh
