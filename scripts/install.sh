#!/usr/bin/env bash
# install.sh PROGRAM... : makes sure that programs are installed. On Debian and
# Ubuntu it installs the packages of missing ones, after saying so; elsewhere it
# names them.
set -euo pipefail

package_of() {
  case $1 in
    ip|ss|tc) echo iproute2 ;;
    ping) echo iputils-ping ;;
    perf) echo linux-perf ;;
    rsvg-convert) echo librsvg2-bin ;;
    nginx) echo nginx-light ;;
    dot) echo graphviz ;;
    scapy) echo python3-scapy ;;
    capinfos) echo wireshark-common ;;
    gcc) echo gcc libc6-dev ;;
    qemu-system-x86_64) echo qemu-system-x86 ;;
    depmod|modprobe) echo kmod ;;
    xz) echo xz-utils ;;
    dpkg-deb) echo dpkg ;;
    rping|ucmatose|udaddy|mckey|cmtime|rdma_*) echo rdmacm-utils ;;
    ibv_*) echo ibverbs-utils ;;
    ib_*) echo perftest ;;
    mpirun) echo openmpi-bin ;;
    mpicc) echo libopenmpi-dev ;;
    ssh|ssh-keygen) echo openssh-client ;;
    sshd) echo openssh-server ;;
    ps|pkill) echo procps ;;
    ucx_*) echo ucx-utils ;;
    fi_*) echo libfabric-bin ;;
    memcaslap) echo libmemcached-tools ;;
    # Headers and a module are not programs: the caller has already checked for them.
    pyverbs) echo python3-pyverbs ;;
    infiniband/*) echo libibverbs-dev ;;
    rdma/*) echo librdmacm-dev ;;
    *) echo "$1" ;;
  esac
}

missing=()
for program in "$@"; do
  PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || missing+=("$program")
done
if [[ " $* " == *" go "* && " ${missing[*]} " == *" go "* ]]; then
  echo "Go 1.26 or newer is needed and not on the PATH: install it from https://go.dev/dl" >&2
  exit 1
fi
[ ${#missing[@]} -eq 0 ] && exit 0

packages=()
for program in "${missing[@]}"; do read -ra p <<<"$(package_of "$program")"; packages+=("${p[@]}"); done
if ! command -v apt-get >/dev/null; then
  echo "These programs are missing: ${missing[*]}. Install them with your system's package manager." >&2
  exit 1
fi
echo "Missing: ${missing[*]}. Installing with apt-get: ${packages[*]}" >&2
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
export DEBIAN_FRONTEND=noninteractive
# Install the programs without starting the services of some packages.
install() { "${sudo[@]}" env RUNLEVEL=1 apt-get install -y --no-install-recommends "${packages[@]}" >/dev/null; }
install 2>/dev/null || { "${sudo[@]}" apt-get update >/dev/null && install; }
