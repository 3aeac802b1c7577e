#!/usr/bin/env bash
# tcp-model.sh [--quick | --seeds N] [--dctcp] [-o DIR]: compares the model of TCP with Linux. Real
# iperf3 runs in the wall clock and modelled flows in virtual time, over the lab of
# scripts/experiments/tcp-linux.yaml; then a table shows how far the model is from Linux, and which
# differences are within 5% for rates and Jain's index, 15% for the mean queue, and 20% for packets
# dropped, marked and retransmitted. The full form takes ten minutes, --quick two. --seeds repeats
# each case N times instead of twice: BBR's drops differ by half from run to run. --dctcp compares
# DCTCP, in virtual machines. Finished runs are kept in DIR (default tcp-linux.result) and not
# repeated. It needs root.
#
#   tcp-model.sh --table DIR    # the table of existing results, even of an interrupted run
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin
quick="" seeds="" out="" table="" name=tcp-linux
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=1 ;;
    --seeds) seeds=$(seq -s, "${2:?--seeds takes a number}"); shift ;;
    --dctcp) name=tcp-linux-dctcp ;;
    -o) out=${2:?-o takes a directory}; shift ;;
    --table) table=1 out=${2:?--table takes the directory of a result}; shift ;;
    *) echo "tcp-model.sh: unknown argument $1; usage: tcp-model.sh [--quick | --seeds N] [--dctcp] [-o DIR] | --table DIR" >&2; exit 2 ;;
  esac
  shift
done
out=${out:-$name.result}

if [ -z "$table" ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "tcp-model.sh: real hosts and congestion controls need root: run sudo $0" >&2
    exit 1
  fi
  scripts/install.sh go jq ip iperf3
  if [ $name = tcp-linux ]; then
    modprobe -q tcp_bbr 2>/dev/null || true # it may be built in
    known=$(sysctl -n net.ipv4.tcp_available_congestion_control)
    for cc in reno cubic bbr; do
      [[ " $known " == *" $cc "* ]] && continue
      echo "tcp-model.sh: this kernel has no $cc (it has $known): load its module, tcp_$cc" >&2
      exit 1
    done
  else
    scripts/install.sh qemu-system-x86_64
    scripts/vm-image.sh
  fi
  go build -o bin/weft .
  file=scripts/experiments/$name.yaml
  if [ -n "$quick" ]; then
    # The file's own quick form is only in virtual time.
    file=$(mktemp --suffix=.yaml)
    trap 'rm -f "$file"' EXIT
    { sed '/^quick:/,$d' "scripts/experiments/$name.yaml"
      echo 'quick: {seeds: 1, vary: {flows: ["2"]}}'; } >"$file"
  fi
  # The table is useful even if an expectation does not hold.
  bin/weft experiment "$file" ${quick:+--quick} ${seeds:+--seed $seeds} -o "$out" || [ -f "$out/result.json" ]
fi

echo "Linux $(uname -r), $(iperf3 --version 2>/dev/null | head -1), $(date -u +%F)"
jq -r '
  ([.summaries[] | select(.value != null) | {key: "\(.measure) \(.levels | join(" "))", value: .value}] | from_entries) as $all
  | def of($m; $clock; $c): $all["\($m) \($clock) \($c)"];
    def short: . * 1000 | round / 1000;
    def row($c; $name; $linux; $model; $per; $most):
      if $linux == null or $model == null then empty
      else (if $linux == 0 then null else $model / $linux end) as $r
      | (if $r == null then $model == 0 else ($r - 1 | fabs) <= $most end) as $within
      | "| \($c) | \($name) | \($linux / $per | short) | \($model / $per | short) | \(if $r == null then "" else ($r | short) end) | \(if $within then "yes" else "no" end) |"
      end;
    def same($c; $name; $m; $per; $most): row($c; $name; of($m; "wall"; $c); of($m; "virtual"; $c); $per; $most);
    "| case | measure | Linux | model | ratio | within |",
    "| --- | --- | --- | --- | --- | --- |",
    ([.summaries[] | select(.measure == "throughput" and .levels[0] == "wall" and .value != null) | .levels[1:]][]
     | . as $l | join(" ") as $c
     | same($c; "rate, Mb/s"; "throughput"; 1e6; 0.05),
       same($c; "mean queue, KB"; "queue"; 1e3; 0.15),
       same($c; "dropped"; "dropped"; 1; 0.2),
       same($c; "dropped before 5 s"; "slow_start"; 1; 0.2),
       same($c; "marked"; "marked"; 1; 0.2),
       row($c; "sent again"; of("resent_linux"; "wall"; $c); of("resent_model"; "virtual"; $c); 1; 0.2),
       (if $l[-1] == "1" then empty else row($c; "Jain'"'"'s index"; of("jain_linux"; "wall"; $c); of("jain_model"; "virtual"; $c); 1; 0.05) end))
' "$out/result.json"
