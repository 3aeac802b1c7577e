#!/usr/bin/env bash
# rdma.sh: Debian's RDMA programs on emulated NICs, over one switch and links without
# rate and delay: messages of 64 KB by one queue pair at two path MTUs; an 8-byte
# WRITE, and what its time is spent on; connections per second. The reference
# (dmajoin) copies between two processes in the same way without any NIC or network,
# in the same run.
#
# The parts of a WRITE: the processor time of the emulator for each, which perf's
# samples divide into copying between the processes' memories (DMA) and the rest,
# which is the NICs, links and switch; what is left of the latency is waking the
# engine by a doorbell and the program seeing what was written.
. "$(dirname "$0")/lib.sh"
scripts/install.sh ib_write_bw cmtime perf
scripts/verbs.sh
go build -o "$work/dmajoin" ./scripts/bench/dmajoin
seconds=${SECONDS_EACH:-5}
lab_up <<YAML
topology:
  kinds: {host: {nic: roce, sysctls: {net.ipv4.tcp_congestion_control: reno}}, link: {mtu: 4200}}
  generate: {star: {hosts: 2}}
YAML
pid=$($weft ps --json | jq ".[] | select(.Name == \"$lab\") | .PID")
# the processor time of the emulator so far, in us
busy() { cat /proc/"$pid"/task/*/schedstat | awk '{t += $1} END {print t/1000}'; }
# pair SERVER... : runs a program in h1, and in h2 with h1's address; prints what the
# client says.
pair() {
  local server i
  in_lab h1 "$@" >/dev/null 2>&1 & server=$!
  for i in $(seq 100); do in_lab h1 ss -Hltn sport = :18515 | grep -q . && break; sleep 0.05; done
  in_lab h2 "$@" 10.0.0.1
  wait $server
}
# column N: a column of perftest's line of figures
column() { awk -v n="$1" '/^ *[0-9]+ +[0-9]+ / {print $n}'; }
for _ in $(seq "$RUNS"); do
  "$work/dmajoin" >"$work/join"
  sed -n 1p "$work/join" >>"$work/copy"; sed -n 2p "$work/join" >>"$work/bounce"
  for mtu in 4096 1024; do pair ib_write_bw -x 0 -D "$seconds" -m $mtu --report_gbits | column 4 >>"$work/bw$mtu"; done
  pair ib_write_lat -x 0 -s 8 -n 20000 >"$work/out"
  # Once more for the parts, since taking samples costs time.
  before=$(busy)
  perf record -q -F 1999 -g -p "$pid" -o "$work/perf" -- sleep 600 2>/dev/null & perf=$!
  pair ib_write_lat -x 0 -s 8 -n 20000 >/dev/null
  kill -INT $perf; wait $perf || true
  calc "($(busy)-$before)/40000" %.3f >>"$work/busy"; echo >>"$work/busy"
  perf report -i "$work/perf" --children -g none --stdio 2>/dev/null |
    awk '/__x64_sys_process_vm_(readv|writev)/ {t += $1} END {print t/100}' >>"$work/share"
  column 5 <"$work/out" >>"$work/lat"; column 8 <"$work/out" >>"$work/p99"
  $weft exec -l $lab h1 -- cmtime >/dev/null 2>&1 & server=$! # it serves for ever
  sleep 0.5
  in_lab h2 cmtime -s 10.0.0.1 -c 1000 >"$work/out"
  kill $server; wait $server 2>/dev/null || true
  # All of what a program does to connect, from rdma_create_id on.
  awk '/^(create id|resolve addr|resolve route|create qp|connect)/ {split($0, f, ":"); split(f[2], n, " "); t += n[1]} END {print 1e6/t}' "$work/out" >>"$work/connects"
done
lab_down
of() { median <"$work/$1"; }
copy=$(of copy) bounce=$(of bounce) lat=$(of lat) cpu=$(of busy) share=$(of share)
for mtu in 4096 1024; do
  echo "| ib_write_bw, 64 KB, path MTU $mtu, one queue pair | $(of bw$mtu) Gb/s | $copy Gb/s copied between two processes, no NICs | $(calc "$(of bw$mtu)/$copy" %.2f) |"
done
echo "| ib_write_lat, 8 B, median | $lat us | $bounce us without NICs | $(calc "$lat/$bounce" %.2f) |"
echo "| of it: doorbell, waking the engine, the program seeing it | $(calc "$lat-$cpu" %.2f) us | | |"
echo "| of it: DMA out of one process and into the other | $(calc "$cpu*$share" %.2f) us | | |"
echo "| of it: work requests, NICs, links, switch | $(calc "$cpu*(1-$share)" %.2f) us | | |"
echo "| ib_write_lat, 8 B, 99% | $(of p99) us | | |"
echo "| connections by rdma_cm (cmtime -c 1000) | $(calc "$(of connects)" %.0f) in a second | | |"
