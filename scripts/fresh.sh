#!/usr/bin/env bash
# fresh.sh [-d DIRECTORY] [-u] [COMMAND...]: runs commands in a fresh clone of this commit,
# in a Debian 12 with nothing but Go and git, made by debootstrap. Without commands it
# runs the README's two, each twice. It needs root.
#
#   -d DIRECTORY  where to make it; it stays, and is used again if it is there. Otherwise it
#                 is in a temporary directory, which is removed
#   -u            runs the commands as an ordinary user, who cannot install anything
#   -n            without network, as after the first installation
#
# Every command is one word for a shell: scripts/fresh.sh ./scripts/demo.sh './scripts/test.sh --quick'
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin
root="" user=root network=yes
while getopts d:un option; do
  case $option in
    d) root=$OPTARG ;;
    u) user=somebody ;;
    n) network=no ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- ./scripts/demo.sh ./scripts/demo.sh ./scripts/test.sh ./scripts/test.sh
[ "$(id -u)" -eq 0 ] || { echo "fresh.sh: debootstrap and mounts need root" >&2; exit 1; }
command -v debootstrap >/dev/null || apt-get install -y debootstrap >/dev/null

if [ -z "$root" ]; then
  root=$(mktemp -d /var/tmp/weft-fresh-XXXXXX)
  trap 'rm -rf --one-file-system "$root"' EXIT
fi
if [ ! -e "$root/etc/debian_version" ]; then
  echo "== a new Debian 12 in $root"
  debootstrap --variant=minbase --include=git,ca-certificates bookworm "$root" >"$root.log" 2>&1 || { tail -n 5 "$root.log" >&2; exit 1; }
  rm -f "$root.log"
fi
mkdir -p "$root/usr/local" "$root/home"
[ -e "$root/usr/local/go" ] || cp -r "$(go env GOROOT)" "$root/usr/local/go"
chroot "$root" id somebody >/dev/null 2>&1 || chroot "$root" useradd -m -s /bin/bash somebody
# Debian's installer makes this file; debootstrap does not.
[ -e "$root/etc/hosts" ] || printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
# How this machine reaches the package servers.
cp -L /etc/resolv.conf "$root/etc/"
cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
rm -rf "$root/etc/ssl/certs" && cp -rL /etc/ssl/certs "$root/etc/ssl/certs"
printf 'GOPROXY=%s\nGOTOOLCHAIN=local\n' "$(go env GOPROXY)" >"$root/etc/go.env"
cp "$root/etc/go.env" "$root/usr/local/go/go.env"

home=/root
[ "$user" = root ] || home=/home/$user
clone=$home/weft
if [ ! -e "$root$clone" ]; then
  git clone -q --no-hardlinks . "$root$clone"
else
  git -C "$root$clone" -c safe.directory='*' pull -q "$PWD" HEAD
fi
chroot "$root" chown -R "$user:" "$clone"

# The mounts are in a namespace, which ends with the commands. So is /run.
isolate=(unshare --mount --propagation private)
[ "$network" = yes ] || isolate+=(--net)
for command in "$@"; do
  echo "== $command, as $user, $([ "$network" = yes ] || echo "without network, ")in $root"
  "${isolate[@]}" bash -euc '
    root=$1 user=$2 home=$3 clone=$4 command=$5
    mount --rbind "$root" "$root"
    mount -t proc none "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs none "$root/run"
    mount -t tmpfs -o mode=1777 none "$root/tmp"
    if command -v ip >/dev/null; then ip link set lo up; fi
    # A chroot would not do: who enters a namespace of mounts, as weft exec does, leaves it.
    mkdir -p "$root/outside"
    cd "$root"
    pivot_root . outside
    umount -l /outside
    exec env -i HOME="$home" USER="$user" TERM="${TERM:-dumb}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin \
      chroot --userspec="$user" / bash -c "cd $clone && $command"
  ' fresh "$root" "$user" "$home" "$clone" "$command"
done
