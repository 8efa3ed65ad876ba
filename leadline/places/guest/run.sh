# The job's shell, a child of /init: reads the job of the host, runs it, powers off.
. /lib/leadline/job.sh
[ -r "$LEADLINE_JOB" ] || lacking "qemu_fw_cfg (the host's job)"
[ -n "$LEADLINE_PORT" ] || lacking "virtio_console over virtio_pci (results)"
exec 9>"/dev/$LEADLINE_PORT"
say guest.release "$(uname -r)"
say guest.version "$(uname -v)"
say guest.clocksource "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
say guest.transparent_hugepage "$(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo absent)"
say guest.preempt "$(dmesg | sed -n 's/.*Dynamic Preempt: \([a-z]*\)$/\1/p')"
case $(cat /sys/devices/system/cpu/vulnerabilities/spectre_v1 2>/dev/null) in
  Vulnerable*) say guest.mitigations off ;;
  *) say guest.mitigations auto ;;
esac
say guest.lru_gen "$(cat /sys/kernel/mm/lru_gen/enabled 2>/dev/null || echo absent)"
say guest.memory_kib "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)"
leadline_job
