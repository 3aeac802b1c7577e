#!/usr/bin/env bash
# soak.sh: mixed traffic at about half of the machine's capacity, for MINUTES (60):
# TCP both ways, UDP, pings and short web-like connections on a leaf-spine fabric
# with ECN marking and a little loss. Every minute, or ten times in a shorter run, it
# prints a line with the emulator's memory, open files, and the lateness since the last
# line. It fails if memory has grown by more than 10% from the second third of the run to
# the last, or if files were left open. How late packets are depends on the machine.
. "$(dirname "$0")/lib.sh"
minutes=${MINUTES:-60}
rate=${RATE:-150Mbps} # of each host's link
lab_up <<YAML
topology:
  kinds:
    host: {sysctls: {net.ipv4.tcp_congestion_control: reno, net.ipv4.tcp_ecn: 1}}
    switch: {queue: {limit: 500KB, mark: {step: {k: 100KB}}}}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 2, rate: $rate, delay: 10us, uplink: {rate: 1Gbps, loss: 0.001%}}}
YAML
pid=$($weft ps --json | jq ".[] | select(.name == \"$lab\") | .pid")
seconds=$((minutes * 60 + 5))
for h in h1 h2 h3 h4; do in_lab $h iperf3 -s >/dev/null 2>&1 & done
sleep 1
in_lab h1 iperf3 -c h3 -C cubic -t $seconds >/dev/null 2>&1 &
in_lab h4 iperf3 -c h2 -C cubic -t $seconds >/dev/null 2>&1 &
in_lab h2 iperf3 -c h4 -u -b 20M -l 1200 -t $seconds >/dev/null 2>&1 &
in_lab h3 ping -i 0.05 -q h2 >/dev/null 2>&1 &
(while in_lab h2 iperf3 -c h1 -n 200K >/dev/null 2>&1; do :; done) &
report() { curl -s --unix-socket /run/weft/$lab/control.sock http://lab/v1/report; }
echo "| time | memory | open files | packets | later than 1 ms | p99 so far |"
echo "|---|---|---|---|---|---|"
interval=$((minutes < 10 ? minutes * 6 : 60))
last_count=0 last_beyond=0
for n in $(seq $((minutes * 60 / interval))); do
  sleep $interval
  report >"$work/report"
  count=$(jq .timing.lateness.count "$work/report") beyond=$(jq .timing.lateness.beyond "$work/report")
  memory=$(awk '/VmRSS/ {print $2}' /proc/"$pid"/status) files=$(ls /proc/"$pid"/fd | wc -l)
  echo "$memory $files" >>"$work/growth"
  echo "| $((n * interval)) s | $(calc "$memory/1024" %.1f) MB | $files | $((count - last_count)) | $(calc "100*($beyond-$last_beyond)/($count-$last_count)" %.3f)% | $(lateness p99) us |"
  last_count=$count last_beyond=$beyond
done
awk '{ memory[NR] = $1; files[NR] = $2 }
  END {
    third = int(NR / 3)
    for (i = third + 1; i <= NR; i++)
      if (i <= NR - third) { early += memory[i] / (NR - 2 * third); if (files[i] > open) open = files[i] }
      else { late += memory[i] / third; if (!fewest || files[i] < fewest) fewest = files[i] }
    printf "memory: %.1f MB, then %.1f MB; open files: at most %d, then at least %d\n", early / 1024, late / 1024, open, fewest
    if (late > 1.1 * early || fewest > open) { print "soak: it grows"; exit 1 }
  }' "$work/growth"
