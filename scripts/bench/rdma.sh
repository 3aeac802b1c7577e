#!/usr/bin/env bash
# rdma.sh: Debian's RDMA programs on emulated NICs, over one switch and links without
# rate and delay: messages of 64 KB over one queue pair at two path MTUs; an 8-byte
# WRITE and a breakdown of its time; connections per second. The reference (dmajoin)
# copies between two processes in the same way without any NIC or network, in the
# same run.
#
# perf measures the parts of a WRITE from system calls: from the program's write to the
# doorbell until the engine's epoll returns, the copies out of one process and into the
# other (DMA), what the engine does before and between them, and from the last copy
# until the other program rings. Tracing slows everything down, so the parts are given
# as shares of the latency without it.
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
pid=$($weft ps --json | jq ".[] | select(.name == \"$lab\") | .pid")
# pair SERVER... : runs a program in h1, and in h2 with h1's address; prints the
# client's output.
pair() {
  local server i
  in_lab h1 "$@" >/dev/null 2>&1 & server=$!
  for i in $(seq 100); do in_lab h1 ss -Hltn sport = :18515 | grep -q . && break; sleep 0.05; done
  in_lab h2 "$@" 10.0.0.1
  wait $server
}
# column N: a column of perftest's line of figures
column() { awk -v n="$1" '/^ *[0-9]+ +[0-9]+ / {print $n}'; }
# parts: records each part's share of each WRITE's time. The events of a WRITE are, in
# order: ring, woken, read, has read, write, has written, and the ring of the other
# side.
parts() {
  awk -v dir="$work" '
    function at() { return substr($2, 1, length($2) - 1) * 1e6 }
    /^ *ib_write_lat .*enter_write:/ {
      if (step == 6) {
        all = at() - t[0]
        print (t[1] - t[0]) / all >> (dir "/woken")
        print (t[3] - t[2] + t[5] - t[4]) / all >> (dir "/dma")
        print (t[2] - t[1] + t[4] - t[3]) / all >> (dir "/engine")
        print (at() - t[5]) / all >> (dir "/seen")
      }
      t[0] = at(); step = 1
    }
    step == 1 && /exit_epoll_pwait2/ { t[step++] = at() }
    step == 2 && /enter_process_vm_readv/ { t[step++] = at() }
    step == 3 && /exit_process_vm_readv/ { t[step++] = at() }
    step == 4 && /enter_process_vm_writev/ { t[step++] = at() }
    step == 5 && /exit_process_vm_writev/ { t[step++] = at() }'
}
for _ in $(seq "$RUNS"); do
  "$work/dmajoin" >"$work/join"
  sed -n 1p "$work/join" >>"$work/copy"; sed -n 2p "$work/join" >>"$work/bounce"
  for mtu in 4096 1024; do pair ib_write_bw -x 0 -D "$seconds" -m $mtu --report_gbits | column 4 >>"$work/bw$mtu"; done
  pair ib_write_lat -x 0 -s 8 -n 20000 >"$work/out"
  column 5 <"$work/out" >>"$work/lat"; column 8 <"$work/out" >>"$work/p99"
  # Once more for the parts.
  pair ib_write_lat -x 0 -s 8 -n 40000 >/dev/null & both=$!
  until peers=$(pgrep -d, -x ib_write_lat) && [[ $peers == *,* ]]; do sleep 0.05; done
  sleep 0.3 # they have begun
  perf record -q -p "$pid,$peers" -o "$work/perf" \
    -e "syscalls:sys_enter_write,syscalls:sys_exit_epoll_pwait2,syscalls:sys_enter_process_vm_readv,syscalls:sys_exit_process_vm_readv,syscalls:sys_enter_process_vm_writev,syscalls:sys_exit_process_vm_writev" -- sleep 0.3
  wait $both
  perf script -i "$work/perf" -F comm,time,event --ns 2>/dev/null | parts
  $weft exec -l $lab h1 -- cmtime >/dev/null 2>&1 & server=$! # it runs for ever
  sleep 0.5
  in_lab h2 cmtime -s 10.0.0.1 -c 1000 >"$work/out"
  kill $server; wait $server 2>/dev/null || true
  # All steps of a program to connect, from rdma_create_id on.
  awk '/^(create id|resolve addr|resolve route|create qp|connect)/ {split($0, f, ":"); split(f[2], n, " "); t += n[1]} END {print 1e6/t}' "$work/out" >>"$work/connects"
done
lab_down
of() { median <"$work/$1"; }
copy=$(of copy) bounce=$(of bounce) lat=$(of lat)
for mtu in 4096 1024; do
  echo "| ib_write_bw, 64 KB, path MTU $mtu, one queue pair | $(of bw$mtu) Gb/s | $copy Gb/s copied between two processes, no NICs | $(calc "$(of bw$mtu)/$copy" %.2f) |"
done
echo "| ib_write_lat, 8 B, median | $lat us | $bounce us without NICs | $(calc "$lat/$bounce" %.2f) |"
part() { echo "| of it: $2 | $(calc "$lat*$(of "$1")" %.1f) us | | $(of "$1" | xargs printf %.2f) |"; }
part woken "doorbell: waking the engine"
part engine "engine: work request, NICs, links, switch"
part dma "DMA: out of one process and into the other"
part seen "the program sees it and answers"
echo "| ib_write_lat, 8 B, 99% | $(of p99) us | | |"
echo "| connections by rdma_cm (cmtime -c 1000) | $(calc "$(of connects)" %.0f) in a second | | |"
