#!/usr/bin/env bash
# demo.sh: a lab of four real hosts behind two emulated switches; iperf3 runs
# across it. It prints goodput, marks, drops and how late the emulator was, leaves
# demo.pcapng for Wireshark, and removes everything else. Then it runs rping between
# emulated RDMA NICs, and an incast of eight ib_write_bw: lossy, with PFC, and with PFC
# and DCQCN, which leaves demo-rdma-pfc.pcapng and demo-rdma-dcqcn.pcapng. Last comes an
# incast of such NICs in virtual time.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin

scripts/need-labs.sh
scripts/install.sh --for demo

echo "== building bin/weft"
go build -o bin/weft .
echo "== building the libraries for RDMA programs, bin/verbs"
scripts/verbs.sh
weft=bin/weft
lab=two-switches
capture=demo.pcapng

cleanup() {
  if [ -n "${capturing:-}" ]; then kill "$capturing" 2>/dev/null || true; fi
  # Stop only a lab that this script started.
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

lab=rdma
echo "== emulated RDMA NICs: rping from h2 to h1 of scripts/labs/$lab.yaml, Debian's own, without RDMA in the kernel"
$weft up -d scripts/labs/$lab.yaml
started=yes
timeout 60 $weft exec -l $lab h1 -- rping -s -C 10 &
server=$!
# The client is refused until the server listens.
for try in $(seq 50); do
  if said=$(timeout 30 $weft exec -l $lab h2 -- rping -c -a h1 -C 10 -v -V 2>&1); then break; fi
  if [ "$try" -eq 50 ]; then echo "$said"; exit 1; fi
  sleep 0.1
done
echo "$said"
wait $server
$weft nic -l $lab h2
$weft down $lab >/dev/null
started=

echo "== ib_write_bw from eight hosts to one, 5 s each time, over 400 Mb/s links; one beside them"
scripts/rdma-incast.sh demo-rdma
echo "== demo-rdma-pfc.pcapng and demo-rdma-dcqcn.pcapng: the first seconds at the bottleneck."
echo "   Try the filters macc (PFC), infiniband.bth.opcode == 0x81 (CNPs), ip.dsfield.ecn == 3"
echo "   (marked); weft dissector prints what Wireshark lacks, to be put into its plugins."
ls -l demo-rdma-*.pcapng

echo "== modelled programs with such NICs: eight of them WRITE 10 MB each to one, in virtual time"
scripts/incast.sh
