#!/usr/bin/env bash
# run.sh [RUNS]: Fig. 3, 4, 8 and 9 of "Congestion Control for Large-Scale RDMA
# Deployments" (Zhu et al., SIGCOMM 2015) in virtual time: throughput with PFC alone
# and with DCQCN. Each run has another seed, so ECMP maps the flows otherwise. The
# default is 15 runs of each, which take about two minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH=$PATH:/usr/local/go/bin
scripts/install.sh go
go build -o bin/weft .
runs=${1:-15}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# rates LAB PORTS: runs the lab with every seed and prints, for each run, host and
# Gb/s of the frames that it sends in the second half, from 30 ms on: it takes DCQCN
# as long to recover from the senders' first burst, and PFC some to fill all buffers.
rates() {
  local seed
  for seed in $(seq "$runs"); do
    bin/weft sim "$1" --seed "$seed" --series "$work/series.csv" --every 10ms --series-port "$2" >/dev/null
    awk -F, '$4 == "" && $1 > 0.0301 { bytes[$3] += $7; time[$3] += $2 }
      END { for (p in bytes) { split(p, name, ":"); print name[1], bytes[p] * 8e-9 / time[p] } }' "$work/series.csv"
  done
}

# spread HOST: least, median and greatest of a host's rates.
spread() { awk -v h="$1" '$1 == h { print $2 }' | sort -g | awk '{ v[NR] = $1 } END { printf "%5.1f %5.1f %5.1f", v[1], v[int((NR + 1) / 2)], v[NR] }'; }

# without HOSTS LAB: the lab without what these hosts send.
without() { sed -E "/write: .*from: ($1),/d" "$2" >"$work/lab.yaml"; echo "$work/lab.yaml"; }

here=papers/dcqcn
rates $here/fig3.yaml 'H*:eth0' >"$work/fig3"
rates $here/fig8.yaml 'H*:eth0' >"$work/fig8"
echo "Throughput of H1 to H4 to R in Gb/s: least, median, greatest of $runs runs"
echo "      Fig. 3: PFC        Fig. 8: DCQCN"
for h in H1 H2 H3 H4; do
  echo "$h    $(spread $h <"$work/fig3")  $(spread $h <"$work/fig8")"
done

echo
echo "Throughput of the victim in Gb/s: least, median, greatest of $runs runs"
echo "senders under T3   Fig. 4: PFC        Fig. 9: DCQCN"
for n in 0 1 2; do
  gone=('H31|H32' H32 nobody)
  rates "$(without "${gone[n]}" $here/fig4.yaml)" VS:eth0 >"$work/fig4"
  rates "$(without "${gone[n]}" $here/fig9.yaml)" VS:eth0 >"$work/fig9"
  echo "$n                 $(spread VS <"$work/fig4")  $(spread VS <"$work/fig9")"
done
