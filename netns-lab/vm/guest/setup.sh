#!/bin/sh
# Sets up a guest of weft's own image: busybox's init runs this before it starts
# the agent. The settings are the lines of the file opt/weft/setup in QEMU's
# firmware configuration (netns-lab/vm/config.go).
export PATH=/usr/bin:/bin:/sbin HOME=/root
mount -t devtmpfs dev /dev 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
modprobe -a virtio_pci virtio_net virtio_console qemu_fw_cfg crc32_generic ib_uverbs rdma_ucm rdma_rxe
ulimit -l unlimited

# refused says what did not work, on the console.
refused() { echo "weft: refused: $*" >/dev/console; }
printf '127.0.0.1\tlocalhost\n::1\tlocalhost\n' >/etc/hosts
ip link set lo up
while read -r what a b; do
  case $what in
    hostname) hostname "$a" ;;
    host) printf '%s\t%s\n' "$a" "$b" >>/etc/hosts ;;
    nic) # by its Ethernet address, under a name that no other has
      for d in /sys/class/net/*; do
        [ "$(cat "$d/address")" = "$a" ] && ip link set "${d##*/}" name "$b"
      done
      ;;
    name) ip link set "$a" name "$b" || refused "name $a $b" ;;
    sysctl) echo "$b" >"/proc/sys/$a" || refused "sysctl $a $b" ;;
    up) ip link set "$a" up || refused "up $a" ;;
    rdma) rdma link add "$b" type rxe netdev "$a" || refused "rdma $a $b" ;;
    address)
      case $b in *:*) ip addr add "$b" dev "$a" nodad ;; *) ip addr add "$b" dev "$a" ;; esac || refused "address $a $b"
      ;;
    route) ip route add "$a" via "$b" || refused "route $a $b" ;;
  esac
done <"/sys/firmware/qemu_fw_cfg/by_name/opt/weft/setup/raw"
