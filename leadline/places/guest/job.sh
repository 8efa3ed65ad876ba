# What a job may call. Results go over the virtio port that run.sh opened as descriptor 9, from one process at a time:
#   save NAME             the guest stops here; a fork goes on with a job of its own, and what follows in this one is lost
#   put NAME FILE         a result file, as it is: packing it costs the guest more than sending it
#   say KEY VALUE         a fact
#   ready URL SECONDS     waits until URL responds, so many seconds of the guest's time
#   fail CLASS TEXT       ends the guest; CLASS as in leadline.model.errors.FailureClass
#   finish                ends the guest; so does the end of the job
LEADLINE_JOB=/sys/firmware/qemu_fw_cfg/by_name/opt/leadline/job/raw
LEADLINE_PORT=
for leadline_port in /sys/class/virtio-ports/*; do
  [ "$(cat "$leadline_port/name" 2>/dev/null)" = leadline ] && LEADLINE_PORT=${leadline_port##*/}
done

seconds() { cut -d' ' -f1 /proc/uptime; }

say() { printf 'say %s %s\n' "$1" "$(printf %s "$2" | tr '\n' ' ')" >&9; }

put() {
  [ -f "$2" ] || fail configuration "there is no $2 to send as $1"
  printf 'put %s %s %s\n' "$1" "$(stat -c %s "$2")" "$(sha256sum <"$2" | cut -c1-64)" >&9
  cat "$2" >&9
}

fail() {
  echo "leadline: fail $1 $2"
  [ -z "$LEADLINE_PORT" ] || { [ -e /proc/self/fd/9 ] || exec 9>"/dev/$LEADLINE_PORT"; printf 'fail %s %s\n' "$1" "$2" >&9; }
  poweroff -f
}

lacking() { fail configuration "this kernel cannot be used: it has no $1"; }

ready() {
  leadline_until=$(($(seconds | cut -d. -f1) + $2))
  until timeout 20 wget -q -O /dev/null "$1"; do
    [ "$(seconds | cut -d. -f1)" -lt "$leadline_until" ] || fail infrastructure "$1 does not respond after $2 s"
    sleep 0.1
  done
}

finish() {
  say guest.ended "$(seconds)"
  echo finish >&9
  poweroff -f
}

leadline_job() {
  tr -d '\000' <"$LEADLINE_JOB" >/run/leadline/job.$((leadline_jobs = leadline_jobs + 1))
  say guest.began "$(seconds)"
  . /run/leadline/job.$leadline_jobs
  finish
}

# initramfs.py tells why a program of its own does it.
save() {
  for leadline_device in /sys/bus/pci/devices/*; do
    [ "$(cat "$leadline_device/vendor" "$leadline_device/device" | tr '\n' :)" = 0x1b36:0x0011: ] && break
  done
  [ ! -e "$leadline_device/driver" ] || echo "${leadline_device##*/}" >"$leadline_device/driver/unbind"
  echo 1 >"$leadline_device/enable"
  sync
  say guest.ended "$(seconds)"
  echo "save $1" >&9
  /lib/leadline/pause "$leadline_device/resource0" || lacking "way to pause: $leadline_device/resource0, iopl"
  leadline_job
}
