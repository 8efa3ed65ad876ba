#!/bin/busybox sh
# /init of a guest: file systems, kernel modules in the order that initramfs.py wrote, then the job that the host gave.
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /root
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm /run/leadline
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
chmod 1777 /tmp # not mounted over: files of the image may lie there
ip link set lo up
hostname guest
while read -r module; do
  insmod "/lib/leadline/modules/$module" || echo "leadline: module $module is not loaded"
done </lib/leadline/modules/order
sh /lib/leadline/run.sh
status=$?
. /lib/leadline/job.sh
fail configuration "the guest's job ended with exit code $status"
