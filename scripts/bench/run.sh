#!/usr/bin/env bash
# run.sh: all benchmarks, as a Markdown table. RUNS=5 is the number of runs; each
# benchmark prints the median.
set -euo pipefail
cd "$(dirname "$0")"
echo "$(uname -sr), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), load $(cut -d' ' -f1 /proc/loadavg)"
echo
echo "| What | Figure | Reference in the same run | Ratio |"
echo "|---|---|---|---|"
for b in offload eqds rate pps rtt tcp scale sim memory switch nic rdma; do ./$b.sh; done
