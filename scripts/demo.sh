#!/usr/bin/env bash
# demo.sh: a lab of four real hosts behind two emulated switches; iperf3 runs
# across it. It prints goodput, marks, drops and how late the emulator was. Then it
# runs rping between emulated RDMA NICs, and an incast of eight ib_write_bw: lossy, with
# PFC, and with PFC and DCQCN. Last come an incast of such NICs in virtual time, and a
# small one whose capture has a mark, a drop, a pause and a CNP.
#
# It leaves bin/, demo.pcapng, demo-signals.pcapng and incast.result/, and removes
# everything else.
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
capture=demo.pcapng signals=demo-signals.pcapng

# What to write into Wireshark's filter line. Marks have two names, as names of hosts resolve to
# IPv6 first. weft dissector prints what Wireshark lacks, to be put into its plugins.
filters=(
  'marks   ip.dsfield.ecn == 3 or ipv6.tclass.ecn == 3'
  'drops   frame.comment contains "dropped"'
  'pauses  macc.opcode == 0x0101'
  'CNPs    infiniband.bth.opcode == 0x81'
)

# show CAPTURE [NAME] prints the filters, or that of one name, and, where tshark is installed, how
# many packets each finds.
show() {
  local line name filter found=
  for line in "${filters[@]}"; do
    read -r name filter <<<"$line"
    [ "${2:-$name}" = "$name" ] || continue
    if command -v tshark >/dev/null; then found=$(tshark -r "$1" -Y "$filter" 2>/dev/null | wc -l); fi
    printf '   %-7s %-46s %s\n' "$name" "$filter" "$found"
  done
}

cleanup() {
  if [ -n "${capturing:-}" ]; then kill "$capturing" 2>/dev/null || true; fi
  # Stop only a lab that this script started.
  if [ -n "${started:-}" ]; then $weft down $lab >/dev/null 2>&1 || true; fi
}
trap cleanup EXIT

echo "== starting the lab of scripts/labs/$lab.yaml"
$weft up -d --workload=false scripts/labs/$lab.yaml
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
echo "== $capture: open it in Wireshark. Marked packets carry a comment; this filter finds them, over IPv4 and IPv6:"
show $capture marks

lab=rdma
echo "== emulated RDMA NICs: rping from h2 to h1 of scripts/labs/$lab.yaml, Debian's own, without RDMA in the kernel"
$weft up -d --workload=false scripts/labs/$lab.yaml
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
scripts/rdma-incast.sh

echo "== modelled programs with such NICs: eight of them WRITE 10 MB each to one, in virtual time"
scripts/incast.sh

echo "== a mark, a drop, a pause and a CNP in one capture, of scripts/labs/signals.yaml in virtual time"
$weft sim scripts/labs/signals.yaml -w $signals -p s1:h7,s1:h1 -s 128 >/dev/null
show $signals

echo "== what is left: bin/ and"
ls -ld $capture $signals incast.result
