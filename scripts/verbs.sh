#!/usr/bin/env bash
# verbs.sh [DIRECTORY]: builds the libraries that RDMA programs in hosts with a NIC
# load in place of rdma-core's, into bin/verbs or DIRECTORY, and installs what they
# need.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-bin/verbs}
scripts/install.sh gcc infiniband/verbs.h rdma/rdma_cma.h
mkdir -p "$out"
src=nicemu/verbs
# library NAME MAP FILES...: links one library, with all symbols defined.
library() {
  local name=$1 map=$2; shift 2
  gcc -std=gnu11 -O2 -g -Wall -Wextra -Werror -fPIC -fvisibility=default -shared -pthread -I"$src" \
    -Wl,-soname,"$name" -Wl,--version-script,"$src/$map" -Wl,-z,defs -Wl,-z,now -Wl,-rpath,'$ORIGIN' \
    -o "$out/.$name.new" "$@"
  mv "$out/.$name.new" "$out/$name" # running programs keep the old one
}
library libibverbs.so.1 libibverbs.map "$src"/{session,device,domain,memory,cq,cqex,qp,post,wr,srq,xrc,text}.c
library librdmacm.so.1 librdmacm.map "$src"/{cm,cmep,rdgram,rsocket}.c "$out/libibverbs.so.1"
library libmlx5.so.1 libmlx5.map "$src/mlx5.c"
library libefa.so.1 libefa.map "$src/efa.c"
