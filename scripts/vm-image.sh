#!/usr/bin/env bash
# vm-image.sh: builds the kernel and the initramfs that nodes with kind: vm boot by
# default, only from Debian's packages: they are downloaded and unpacked, and nothing
# is installed. It needs no root.
#
# The result is in a directory named after the versions of its contents, below
# $WEFT_VM, else below $XDG_CACHE_HOME/weft/vm or ~/.cache/weft/vm, where the link
# "current" points to it. If it already exists, nothing is done.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin

# Contents of the image. Debian's kernel has all the needed modules in one package;
# its cloud flavour lacks rdma_rxe.
kernel_meta=linux-image-amd64
packages=(busybox-static dash bash coreutils iproute2 iputils-ping iperf3 tcpdump ethtool rdmacm-utils ibverbs-utils ibverbs-providers perftest libgcc-s1)
programs=(dash bash nice ip tc ss bridge rdma devlink ping iperf3 tcpdump ethtool rping udaddy udpong ucmatose rcopy rstream riostream cmtime mckey
  ibv_devices ibv_devinfo ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong
  ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat)
modules=(virtio_pci virtio_net virtio_console virtio_blk virtio_scsi qemu_fw_cfg
  crc32_generic crc32c_generic ib_uverbs ib_umad rdma_ucm rdma_cm rdma_rxe
  tcp_dctcp tcp_bbr tcp_htcp tcp_vegas
  sch_netem sch_fq sch_fq_codel sch_codel sch_red sch_tbf sch_prio sch_htb sch_ets sch_mqprio sch_ingress
  cls_u32 cls_flower cls_matchall act_mirred act_skbedit act_pedit act_police
  8021q bridge veth dummy ifb tun bonding vxlan macvlan vrf mpls_router)

die() { echo "vm-image.sh: $*" >&2; exit 1; }
[ "$(uname -m)" = x86_64 ] || die "the image is of x86-64, and this machine is $(uname -m)"
command -v apt-get >/dev/null || die "it is made of Debian's packages, and there is no apt-get here: give your vm nodes a kernel and an initrd or a disk of their own"
scripts/install.sh go cpio xz depmod dpkg-deb

cache=${WEFT_VM:-${XDG_CACHE_HOME:-$HOME/.cache}/weft/vm}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
work=$(mktemp -d "$cache/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Downloads, with versions: the kernel to which the meta package refers, and the
# packages with the libraries that they need on an empty system.
: >"$work/empty"
mkdir -p "$work/deb/partial"
simulate() {
  apt-get install -s --no-install-recommends -o Dir::State::status="$work/empty" -o Debug::NoLocking=1 "$@" 2>/dev/null |
    sed -n 's/^Inst \([^ ]*\) (\([^ ]*\).*/\1=\2/p'
}
kernel=$(simulate "$kernel_meta" | grep -E '^linux-image-[0-9][^=]*=' || true)
list=$(simulate "${packages[@]}" | grep -E "^($(IFS='|'; echo "${packages[*]}")|lib[^=]*|zlib1g)=" | grep -v -- '-perl=\|^libperl' || true)
if [ -z "$kernel" ] || [ -z "$list" ]; then
  [ -e "$cache/current/initramfs" ] && { echo "apt-get knows no packages (apt-get update): keeping $(readlink -f "$cache/current")" >&2; echo "$cache/current"; exit 0; }
  die "apt-get does not know $kernel_meta, iproute2 and the others: run apt-get update (the image is made on Debian 12 or newer)"
fi
key=$( (echo "$kernel"; echo "$list"; cat scripts/vm-image.sh netns-lab/vm/guest/* netns-lab/vm/agent/*.go go.mod) | sha256sum | cut -c1-16)
finish() { ln -sfn "$key" "$cache/current"; echo "$cache/current"; exit 0; }
[ -e "$cache/$key/initramfs" ] && finish

echo "building the image for vm nodes in $cache/$key: $(wc -w <<<"$kernel $list") packages to download" >&2
(cd "$work/deb" && apt-get download -q=2 $kernel $list) >"$work/log" 2>&1 || { cat "$work/log" >&2; die "the packages cannot be downloaded"; }
mkdir -p "$work/kernel" "$work/tree" "$work/out"
for deb in "$work"/deb/*.deb; do
  case $(basename "$deb") in
    linux-image-*) dpkg-deb -x "$deb" "$work/kernel" ;;
    *) dpkg-deb -x "$deb" "$work/tree" ;;
  esac
done
rm -rf "$work/deb"
version=$(ls "$work/kernel/lib/modules")

# The form in which the kernel boots fastest: a bzImage unpacks itself, which takes
# an emulated processor three times as long as all the rest. Its header gives the
# location of the payload (Documentation/arch/x86/boot.rst).
field() { od -An -t "u$3" -j "$(($2))" -N "$3" "$1" | tr -d ' '; }
image=$work/kernel/boot/vmlinuz-$version
start=$((($(field "$image" 0x1f1 1) + 1) * 512 + $(field "$image" 0x248 4)))
length=$(field "$image" 0x24c 4)
tail -c "+$((start + 1))" "$image" | head -c "$length" >"$work/payload" || true
case $(od -An -t x1 -N 4 "$work/payload" | tr -d ' \n') in
  fd377a58) unpack="xz -dc" ;;
  28b52ffd) unpack="zstd -dc" ;;
  1f8b*) unpack="gzip -dc" ;;
  02214c18) unpack="lz4 -dc" ;;
  *) unpack="" ;;
esac
# The payload is followed by the size of the result, which the unpackers report as
# trailing garbage.
[ -n "$unpack" ] && $unpack <"$work/payload" >"$work/out/vmlinux" 2>/dev/null || true
if [ "$(head -c 4 "$work/out/vmlinux" 2>/dev/null | tail -c 3)" != ELF ]; then
  cp "$image" "$work/out/vmlinux"
fi

# The root: programs with their libraries, modules with their dependencies, and the agent.
root=$work/root
tree=$work/tree
mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,lib,lib64,proc,sys,dev,tmp,run,etc,var,root}
loader=$(find "$tree" -name 'ld-linux-x86-64.so.2' | head -n 1)
libraries=$tree/lib/x86_64-linux-gnu:$tree/usr/lib/x86_64-linux-gnu
take() { # copies a file of the tree to a path in the root, with the libraries that it needs
  local from=$1 to=$root$2
  [ -e "$to" ] && return
  mkdir -p "$(dirname "$to")"
  cp -L "$from" "$to"
  # From the tree, not the machine's own libraries. A static program has none.
  local list
  list=$("$loader" --inhibit-cache --library-path "$libraries" --list "$from" 2>/dev/null || true)
  if grep -v "$tree/\|linux-vdso" <<<"$list" | grep -q '=>'; then
    die "$from needs what is in none of the packages: $(grep -v "$tree/" <<<"$list")"
  fi
  { grep -o "$tree/[^ ]*" <<<"$list" || true; } | sort -u |
    while read -r library; do take "$library" "${library#"$tree"}"; done
}
# Busybox is linked under all its names, except those of the real programs, which are
# earlier in the PATH. It is not the shell: its shell runs its own ip and ping rather
# than those in the PATH.
cp "$tree/bin/busybox" "$root/bin/busybox"
"$root/bin/busybox" --list | while read -r applet; do [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"; done
ln -sf /usr/bin/dash "$root/bin/sh"
ln -sf /usr/bin/bash "$root/bin/bash"
for program in "${programs[@]}"; do
  found=$(find "$tree" -path "*bin/$program" \( -type f -o -type l \) | head -n 1)
  [ -n "$found" ] || die "none of the packages has $program"
  take "$found" "/usr/bin/$program"
done
for library in "$tree"/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav*.so "$(find "$tree" -name libgcc_s.so.1)"; do take "$library" "${library#"$tree"}"; done
mkdir -p "$root/etc/libibverbs.d" "$root/lib64"
cp "$tree"/etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/"
[ -e "$root/lib64/ld-linux-x86-64.so.2" ] || cp -L "$loader" "$root/lib64/ld-linux-x86-64.so.2"
# The kernel loads modules with /sbin/modprobe: rdma_rxe needs crc32.
ln -s /bin/busybox "$root/sbin/modprobe"

depmod -b "$work/kernel" "$version"
mkdir -p "$root/lib/modules/$version"
for module in "${modules[@]}"; do
  modprobe -d "$work/kernel" -S "$version" --show-depends --ignore-install "$module" 2>/dev/null || echo "no module $module" >&2
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u | while read -r file; do
  to=$root/lib/modules/$version/${file#*"/lib/modules/$version/"}
  mkdir -p "$(dirname "$to")"
  case $file in
    *.xz) xz -dc "$file" >"${to%.xz}" ;;
    *.zst) zstd -qdc "$file" >"${to%.zst}" ;;
    *) cp "$file" "$to" ;;
  esac
done
command -v strip >/dev/null && find "$root/lib/modules" -name '*.ko' -exec strip --strip-debug {} +
cp "$work/kernel/lib/modules/$version"/modules.{builtin,builtin.modinfo,order} "$root/lib/modules/$version/"
depmod -b "$root" "$version"

CGO_ENABLED=0 GOARCH=amd64 go build -trimpath -ldflags='-s -w' -o "$root/bin/weft-agent" ./netns-lab/vm/guest
install -m 755 netns-lab/vm/guest/setup.sh "$root/etc/setup"
install -m 644 netns-lab/vm/guest/inittab "$root/etc/inittab"
install -m 644 netns-lab/vm/guest/profile "$root/etc/profile"
ln -s /bin/busybox "$root/init"
echo 'root:x:0:0:root:/root:/bin/bash' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
for file in services protocols; do [ -e "/etc/$file" ] && cp "/etc/$file" "$root/etc/"; done
mkdir -p "$root/etc/iproute2" && cp "$tree"/etc/iproute2/* "$root/etc/iproute2/" 2>/dev/null || true

# Not compressed: an emulated processor decompresses more slowly than it copies.
(cd "$root" && find . -print0 | sort -z | cpio --null -o -H newc -R 0:0 --quiet) >"$work/out/initramfs"
{ echo "$kernel"; echo "$list"; } >"$work/out/versions"
mv "$work/out" "$work/image"
rm -rf "${cache:?}/$key"
mv "$work/image" "$cache/$key"
chmod 755 "$cache/$key"
echo "Linux $version, $(du -m "$cache/$key/initramfs" | cut -f1) MB of programs and modules" >&2
finish
