#!/usr/bin/env bash
# tcp-model.sh [--quick] [-o DIR]: holds the model of TCP against Linux. Real iperf3 runs in
# the wall clock and modelled flows in virtual time, over the lab of
# scripts/experiments/tcp-linux.yaml; then a table says how far the model is from Linux, and
# which differences are within 5% for the rate, 15% for the mean queue, and 20% for what is
# sent again. The full form is 27 cells by each clock, --quick six. What has been run is kept
# in DIR (default tcp-linux.result) and not run again. It takes root.
#
#   tcp-model.sh --table DIR    # the table of what is there, also of a run that was interrupted
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin
quick="" out=tcp-linux.result table=""
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=1 ;;
    -o) out=${2:?-o takes a directory}; shift ;;
    --table) table=1 out=${2:?--table takes the directory of a result}; shift ;;
    *) echo "tcp-model.sh: unknown argument $1; usage: tcp-model.sh [--quick] [-o DIR] | --table DIR" >&2; exit 2 ;;
  esac
  shift
done

if [ -z "$table" ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "tcp-model.sh: real hosts and congestion controls need root: run sudo $0" >&2
    exit 1
  fi
  scripts/install.sh go jq ip iperf3
  modprobe -q tcp_bbr 2>/dev/null || true # it may be built in
  known=$(sysctl -n net.ipv4.tcp_available_congestion_control)
  for cc in reno cubic bbr; do
    [[ " $known " == *" $cc "* ]] && continue
    echo "tcp-model.sh: this kernel has no $cc (it has $known): load its module, tcp_$cc" >&2
    exit 1
  done
  go build -o bin/weft .
  file=scripts/experiments/tcp-linux.yaml
  if [ -n "$quick" ]; then
    # The file's own quick form is in virtual time alone.
    file=$(mktemp --suffix=.yaml)
    trap 'rm -f "$file"' EXIT
    { sed -e "s,^lab: ../labs/,lab: $PWD/scripts/labs/," -e '/^# In virtual time alone/,$d' scripts/experiments/tcp-linux.yaml
      echo 'quick: {vary: {path: half, flows: ["2", "8"]}}'; } >"$file"
  fi
  bin/weft experiment "$file" ${quick:+--quick} -o "$out"
fi

echo "Linux $(uname -r), $(iperf3 --version 2>/dev/null | head -1), $(date -u +%F)"
jq -r '
  . as $result
  | ([.summaries[] | select(.value != null) | {key: "\(.measure) \(.levels | join(" "))", value: .value}] | from_entries) as $all
  | def of($m; $clock; $c): $all["\($m) \($clock) \($c)"];
    def row($c; $name; $linux; $model; $most):
      if $linux == null or $model == null then empty
      elif $linux == 0 then "| \($c) | \($name) | 0 | \($model) | | \(if $model == 0 then "yes" else "no" end) |"
      else ($model / $linux) as $r
      | "| \($c) | \($name) | \($linux * 10000 | round / 10000) | \($model * 10000 | round / 10000) | \($r * 1000 | round / 1000) | \(if ($r - 1 | fabs) <= $most then "yes" else "no" end) |"
      end;
    "| path, flows, control | measure | Linux | model | ratio | within |",
    "| --- | --- | --- | --- | --- | --- |",
    ([$result.summaries[] | select(.measure == "throughput" and .levels[0] == "wall" and .value != null) | .levels[1:]][]
     | . as $l | join(" ") as $c | (8 / ($l[1] | tonumber)) as $idle
     | row($c; "rate, Mb/s"; of("throughput"; "wall"; $c) / 1e6; of("throughput"; "virtual"; $c) / 1e6; 0.05),
       row($c; "mean queue, KB"; of("queue"; "wall"; $c) / 1e3; of("queue"; "virtual"; $c) / 1e3; 0.15),
       row($c; "sent again"; of("linux_resent"; "wall"; $c); of("model_resent"; "virtual"; $c); 0.2),
       (if $l[1] == "1" then empty else
        row($c; "Jain'"'"'s index"; of("jain"; "wall"; $c) * $idle; of("jain"; "virtual"; $c) * $idle; 0.05) end))
' "$out/result.json"
