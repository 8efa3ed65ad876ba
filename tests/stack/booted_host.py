"""A far host with kernels of its own: a machine that QEMU emulates, with a disk, GRUB, systemd and sshd, all real.

Its root is made of this machine's programs, its kernels are Debian's from the cache, and GRUB comes from Debian's
packages, which apt-get fetches; nothing is installed. It keeps its disk from boot to boot, as hosts do.
"""

import contextlib
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.places.guest.boot import QEMU, Node, libraries, modules, write_archive
from leadline.places.guest.kernels import Kernel
from leadline.places.ssh.connection import bundle

NETWORK = "198.19.255"  # RFC 2544: for networks between devices under test
ADDRESS = f"{NETWORK}.2"
BROKEN = "9.9.9-broken"  # a kernel of the menu that panics, as it finds no root
_NEEDED = (QEMU, "apt-get", "dpkg-deb", "mke2fs", "busybox", "ip", "ssh", "ssh-keygen", "ldd")
_SYSTEMD = tuple(map(Path, ("/lib/systemd/systemd", "/lib/systemd/systemd-shutdown", "/usr/sbin/sshd")))
_PROGRAMS = (
    *("sh", "bash", "cat", "tar", "find", "mv", "rm", "mkdir", "rmdir", "touch", "id", "uname", "sync", "sed", "sleep"),
    *("basename", "dirname", "echo", "ps", "env", "test", "cp", "ln", "ls", "chmod", "chown", "mount", "umount"),
    *("grep", "hostname", "true", "false", "systemctl", "ip", "mktemp", "readlink", "kill", "gettext"),
)
_GRUB_PACKAGES = ("grub-common", "grub2-common", "grub-pc-bin")
_GRUB_MODULES = ("biosdisk", "part_msdos", "ext2", "normal", "linux", "configfile", "loadenv", "test", "echo", "serial")
_DISK, _SECTOR, _FIRST = 1_200 << 20, 512, 2048  # bytes of the disk, of a sector; the partition's first sector
_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "ext4")
_VIRTIOFSD = "/usr/lib/qemu/virtiofsd"
_SHARING = ("fuse", "virtiofs")  # modules
_UNITS = (
    *("reboot.target", "shutdown.target", "umount.target", "final.target", "poweroff.target"),
    *("systemd-reboot.service", "systemd-poweroff.service"),
)
_INIT = f"""#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /run /root
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do insmod "/lib/leadline/modules/$module"; done </lib/leadline/modules/order
ip link set lo up
ip addr add {ADDRESS}/24 dev eth0
ip link set eth0 up
while ! mount -t ext4 /dev/vda1 /root; do sleep 0.1; done
for each in proc sys dev; do mount -o move /$each /root/$each; done
exec switch_root /root /lib/systemd/systemd
"""
_UNTIL_SHUTDOWN = """[Unit]
DefaultDependencies=no
Conflicts=shutdown.target
Before=shutdown.target
"""
_SSHD = (
    """[Service]
ExecStart=/usr/sbin/sshd -D -e -f /dev/null -h /etc/ssh/key -o PidFile=none -o UsePAM=no -o StrictModes=no \
-o MaxSessions=50 -o AuthorizedKeysFile=/root/.ssh/authorized_keys
RuntimeDirectory=sshd
StandardError=tty
TTYPath=/dev/console
"""
    + _UNTIL_SHUTDOWN
)
# What runs at each boot, with this machine's files below /host.
_SERVICE = (
    """[Service]
ExecStart=/bin/sh /etc/service.sh
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
"""
    + _UNTIL_SHUTDOWN
)
_MENU = """set root=hd0,msdos1
serial --unit=0
terminal_output serial
if [ -s $prefix/grubenv ]; then
  load_env
fi
if [ "${next_entry}" ] ; then
  set default="${next_entry}"
  set next_entry=
  save_env next_entry
else
  set default="0"
fi
menuentry_id_option="--id"
export menuentry_id_option
set timeout=0
"""
_ENTRY = """menuentry '%(title)s' --class os $menuentry_id_option '%(id)s' {
  linux /boot/vmlinuz-%(release)s console=ttyS0 panic=1 quiet systemd.log_target=console
  %(initrd)s
}
"""


@dataclass(frozen=True)
class Booted:
    """``name``: the alias by which ssh on the path knows it; ``console``: what GRUB and the kernels said."""

    name: str
    console: Path
    ssh: Path

    def run(self, command: str) -> str:
        done = subprocess.run(
            [self.ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", self.name, command],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()


def missing() -> str:
    """Why there can be no such host here; empty where there can."""
    if os.geteuid() != 0 or not os.access("/dev/net/tun", os.W_OK):
        return "host: needs root and /dev/net/tun"
    if absent := [name for name in _NEEDED if shutil.which(name) is None]:
        return f"{', '.join(absent)}: not on the PATH"
    return next((f"there is no {path}" for path in _SYSTEMD if not path.exists()), "")


def cannot_share() -> str:
    """Why such a host cannot have this machine's files here; empty where it can."""
    return missing() or ("" if Path(_VIRTIOFSD).exists() else f"there is no {_VIRTIOFSD} (qemu-system-common)")


@contextlib.contextmanager
def booted_host(
    name: str, kernels: Sequence[Kernel], place: Path, memory: str = "768m", service: str = ""
) -> Iterator[Booted]:
    """A host in one network with this one, whose GRUB offers ``kernels``, the first as the usual one, and ``BROKEN``.

    ``place / "bin"`` has an ``ssh`` that knows it. ``service``: a shell script that it runs at each boot, with this
    machine's files below /host. Raises FileNotFoundError where GRUB cannot be had.
    """
    place.mkdir(parents=True, exist_ok=True)
    for key in ("id", "host"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / key)
    disk, console = _disk(kernels, place, service), place / "console.txt"
    wrapper = _client(name, place)
    link = f"lk{os.getpid() % 2**24:x}"
    _run("ip", "tuntap", "add", "dev", link, "mode", "tap")
    process: subprocess.Popen[bytes] | None = None
    files: subprocess.Popen[bytes] | None = None
    try:
        _run("ip", "addr", "add", f"{NETWORK}.1/24", "dev", link)
        _run("ip", "link", "set", link, "up")
        with (place / "qemu.txt").open("wb") as log:
            argv = _machine(disk, console, link, memory)
            if service:
                shared = place / "files.socket"
                options = "source=/,cache=auto,sandbox=chroot"
                share = [_VIRTIOFSD, f"--socket-path={shared}", "-o", options]
                files = subprocess.Popen(share, stdin=subprocess.DEVNULL, stderr=log)
                argv += _sharing(shared, memory)
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=log)
        host = Booted(name, console, wrapper)
        _until_it_answers(host, process, 600)
        yield host
    finally:
        for each in (process, files):
            if each is not None:
                each.kill()
                each.wait(10)
        subprocess.run(["ip", "link", "delete", link], check=False, timeout=30)


def _machine(disk: Path, console: Path, link: str, memory: str) -> list[str]:
    argv = [QEMU, "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", memory, "-nodefaults"]
    argv += ["-no-user-config", "-vga", "std", "-display", "none", "-serial", f"file:{console}"]
    argv += ["-drive", f"file={disk},if=virtio,format=raw,cache=unsafe", "-device", "virtio-net-pci,netdev=net"]
    return [*argv, "-netdev", f"tap,id=net,ifname={link},script=no,downscript=no"]


def _sharing(socket: Path, memory: str) -> list[str]:
    deadline = time.monotonic() + 10
    while not socket.exists():
        assert time.monotonic() < deadline, "virtiofsd does not begin"
        time.sleep(0.05)
    backed = f"memory-backend-memfd,id=mem,size={memory},share=on"
    argv = ["-object", backed, "-numa", "node,memdev=mem", "-chardev", f"socket,id=files,path={socket}"]
    return [*argv, "-device", "vhost-user-fs-pci,chardev=files,tag=host"]


def _until_it_answers(host: Booted, process: subprocess.Popen[bytes], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            host.run("true")
            return
        said = host.console.read_text(errors="replace")[-3000:] if host.console.exists() else ""
        assert process.poll() is None, f"QEMU ended: {(host.console.parent / 'qemu.txt').read_text()}"
        assert time.monotonic() < deadline, f"{host.name} does not answer: {said}"
        time.sleep(1)


def _client(name: str, place: Path) -> Path:
    (place / "known_hosts").write_text(f"{ADDRESS} {(place / 'host.pub').read_text()}")
    (place / "config").write_text(
        f"Host {name}\n HostName {ADDRESS}\n User root\n IdentityFile {place}/id\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {place}/known_hosts\n"
    )
    wrapper = place / "bin" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {place}/config "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


# -- its disk


def _disk(kernels: Sequence[Kernel], place: Path, service: str) -> Path:
    """A disk with a boot sector, GRUB after it and one partition."""
    grub, root, disk = place / "grub", place / "root", place / "disk"
    _fetch_grub(grub)
    _root(root, grub, kernels, place, service)
    core = place / "core.img"
    images = grub / "usr/lib/grub/i386-pc"
    prefix = ("-O", "i386-pc", "-d", images, "-p", "(hd0,msdos1)/boot/grub", "-o", core)
    _run(grub / "usr/bin/grub-mkimage", *prefix, *_GRUB_MODULES)
    assert core.stat().st_size < (_FIRST - 1) * _SECTOR
    with disk.open("wb") as file:
        file.truncate(_DISK)
    offset = _FIRST * _SECTOR
    size = f"{(_DISK - offset) >> 10}k"
    _run("mke2fs", "-q", "-t", "ext3", "-m", "0", "-d", root, "-E", f"offset={offset},root_owner=0:0", disk, size)
    shutil.rmtree(root)
    sectors = (_DISK - offset) // _SECTOR
    partition = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", _FIRST, sectors)
    with disk.open("r+b") as file:
        file.write((images / "boot.img").read_bytes()[:440] + bytes(6) + partition + bytes(48) + b"\x55\xaa")
        file.write(core.read_bytes())  # its place and length are in it, as grub-mkimage writes them
    return disk


def _fetch_grub(into: Path) -> None:
    into.mkdir()
    done = subprocess.run(
        ["apt-get", "-q", "download", *_GRUB_PACKAGES], cwd=into, capture_output=True, check=False, timeout=300
    )
    if done.returncode:
        raise FileNotFoundError(f"GRUB cannot be had: {done.stderr.decode().strip()}")
    for package in sorted(into.glob("*.deb")):
        _run("dpkg-deb", "-x", package, into)


def _root(root: Path, grub: Path, kernels: Sequence[Kernel], place: Path, service: str) -> None:
    """The partition's files."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in ("proc", "sys", "dev", "run", "tmp", "var/tmp", "root/.ssh", "etc/ssh", "boot/grub"):
        (root / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    programs = [Path(found) for name in _PROGRAMS if (found := shutil.which(name))]
    programs += _SYSTEMD
    _copy(root, programs)
    for part in ("usr/bin", "usr/sbin", "usr/share/grub"):
        shutil.copytree(grub / part, root / part, dirs_exist_ok=True, symlinks=True)
    _python(root)
    of_grub = (grub / "usr/bin/grub-editenv", grub / "usr/sbin/grub-probe")
    sent = (path for _, path in bundle().files if ".so" in path.suffixes)
    _libraries(root, [*programs, *of_grub, *sorted(root.rglob("lib-dynload/*.so")), *sent])
    _configuration(root, place)
    if service:
        _serve(root, service)
    for kernel in kernels:
        shutil.copyfile(kernel.image, root / "boot" / f"vmlinuz-{kernel.release}")
        busybox = Path(shutil.which("busybox") or "")
        tree = {
            "bin/busybox": Node(busybox.resolve(), mode=0o755),
            "init": Node(_INIT.encode(), mode=0o755),
            **modules(kernel.modules, (*_MODULES, *(_SHARING if service else ())), ()),
        }
        write_archive(tree, root / "boot" / f"initrd.img-{kernel.release}")
    os.link(root / "boot" / f"vmlinuz-{kernels[0].release}", root / "boot" / f"vmlinuz-{BROKEN}")
    (root / "boot/grub/grub.cfg").write_text(_menu([kernel.release for kernel in kernels]))
    _run(grub / "usr/bin/grub-editenv", root / "boot/grub/grubenv", "create")


def _menu(releases: Sequence[str]) -> str:
    """Ordered as ``update-grub`` does it: the usual kernel, then all of them in a menu below."""

    def entry(release: str, key: str) -> str:
        initrd = "" if release == BROKEN else f"initrd /boot/initrd.img-{release}"
        return _ENTRY % {"title": f"Host, {release}", "id": key, "release": release, "initrd": initrd}

    below = "".join(entry(release, f"host-{release}") for release in (*releases, BROKEN))
    return f"{_MENU}{entry(releases[0], 'host')}submenu 'More' $menuentry_id_option 'host-more' {{\n{below}}}\n"


def _copy(root: Path, files: Iterable[Path]) -> None:
    for path in files:
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def _python(root: Path) -> None:
    """The interpreter that runs this, without tests and installed packages, at its own place and on the path."""
    program = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    _copy(root, [program])
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    library = Path(sysconfig.get_path("stdlib"))
    left_out = shutil.ignore_patterns("test", "site-packages", "dist-packages", "idlelib", "config-*", "*.opt-*.pyc")
    shutil.copytree(library, root / library.relative_to("/"), ignore=left_out, dirs_exist_ok=True)
    link = root / "usr/bin" / version
    if not link.exists():
        link.symlink_to(program)
    _libraries(root, [program])


def _libraries(root: Path, programs: Iterable[Path]) -> None:
    for name, node in libraries(programs).items():
        assert isinstance(node, Node)
        assert isinstance(node.content, Path)
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(node.content, target)


def _configuration(root: Path, place: Path) -> None:
    units = root / "etc/systemd/system"
    units.mkdir(parents=True)
    for unit in _UNITS:
        _copy(root, [Path("/lib/systemd/system") / unit])
    (units / "sshd.service").write_text(_SSHD)
    (units / "default.target").write_text("[Unit]\nRequires=sshd.service\nDefaultDependencies=no\n")
    for name, text in (
        ("passwd", "root:x:0:0::/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"),
        ("group", "root:x:0:\nnogroup:x:65534:\n"),
        ("machine-id", f"{os.urandom(16).hex()}\n"),
        ("os-release", "ID=host\n"),
        ("hostname", "host\n"),
        ("hosts", "127.0.0.1 localhost host\n"),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ):
        (root / "etc" / name).write_text(text)
    shutil.copy(place / "host", root / "etc/ssh/key")
    (root / "etc/ssh/key").chmod(0o600)
    shutil.copy(place / "id.pub", root / "root/.ssh/authorized_keys")


def _serve(root: Path, service: str) -> None:
    (root / "host").mkdir()
    _copy(root, [Path(found) for name in ("chroot", "mountpoint") if (found := shutil.which(name))])
    units = root / "etc/systemd/system"
    (units / "service.service").write_text(_SERVICE)
    target = units / "default.target"
    target.write_text(target.read_text() + "Wants=service.service\n")
    (root / "etc/service.sh").write_text(
        "mount -t virtiofs host /host\n"
        "for each in proc sys dev; do mount --rbind /$each /host/$each; done\n"
        f"mount -t tmpfs none /host/run\n{service}"
    )


def _run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
