"""What may befall a running study beside a kill. Each function returns what went wrong, in words."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.kill.machine import HOST_FREE, ORDINARY, PATIENCE, Leadline, gone, kill, until


def _begun(leadline: Leadline, run: subprocess.Popen[bytes]) -> bool:
    """Wait for the load of a trial."""
    return until(lambda: leadline.loading() or run.poll() is not None, HOST_FREE) and run.poll() is None


def _ends(run: subprocess.Popen[bytes], *codes: int) -> list[str]:
    try:
        code = run.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        run.kill()
        return ["it did not end"]
    return [] if code in codes else [f"exit code {code}, not {' or '.join(map(str, codes))}"]


def _goes_on(leadline: Leadline, run: subprocess.Popen[bytes]) -> list[str]:
    """Its next trial is finished; then it is told to end."""
    before = leadline.done()
    if not until(lambda: leadline.done() > before or run.poll() is not None) or run.poll():
        return [f"no trial was finished any more (exit code {run.poll()})", *_ends(run, 0)]
    kill(run.pid, signal.SIGTERM)
    return _ends(run, 0, 1, 128 + signal.SIGTERM)


def _says(leadline: Leadline, *words: str, log: str = "run.log") -> list[str]:
    text = leadline.said(log)
    return [] if any(word in text for word in words) else [f"{' or '.join(words)!r} is not said: {text[-400:]!r}"]


def _signals(*numbers: int, pause: float = 0.05) -> Callable[[Leadline], list[str]]:
    def scenario(leadline: Leadline) -> list[str]:
        run = leadline.run()
        if not _begun(leadline, run):
            return ["no load began"]
        for number in numbers:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, number)
            time.sleep(pause)
        name = signal.Signals(numbers[0]).name
        return [*_ends(run, 1), *_says(leadline, f"ended by {name}"), *_says(leadline, "report:")]

    return scenario


def _terminal(act: Callable[[int, subprocess.Popen[bytes]], None], *codes: int) -> Callable[[Leadline], list[str]]:
    def scenario(leadline: Leadline) -> list[str]:
        master, slave = os.openpty()
        run = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *leadline.argv("run", "killed.yaml", "--lab", leadline.lab)],
            cwd=leadline.place, env=leadline.environment(), stdin=slave, stdout=slave, stderr=slave,
        )  # fmt: skip
        os.close(slave)
        os.set_blocking(master, False)

        def drained() -> bool:
            with suppress(OSError):
                os.read(master, 65536)
            return leadline.loading()

        if not until(drained, HOST_FREE):
            return ["no load began"]
        act(master, run)
        return _ends(run, *codes)

    return scenario


def _close(master: int, _run: subprocess.Popen[bytes]) -> None:
    os.close(master)


def _type_control_c(master: int, run: subprocess.Popen[bytes]) -> None:
    for _ in range(5):
        with suppress(OSError):
            os.write(master, b"\x03")
        time.sleep(0.1)
    while run.poll() is None:
        with suppress(OSError):
            os.read(master, 65536)
        time.sleep(0.05)


def closed_pipe(leadline: Leadline) -> list[str]:
    """Its reader goes away: the study goes on."""
    argv = leadline.argv("run", "killed.yaml", "--lab", leadline.lab)
    out = subprocess.PIPE
    run = subprocess.Popen(argv, cwd=leadline.place, env=leadline.environment(), stdout=out, stderr=out)
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.readline()
    run.stdout.close()
    run.stderr.close()
    return _goes_on(leadline, run)


@contextmanager
def _small(place: Path, size: str, user: str) -> Iterator[Path]:
    """A file system of this size in memory."""
    options = f"size={size},mode=755" + (f",uid={user}" if user else "")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        while place.is_mount():
            subprocess.run(["umount", "--lazy", str(place)], check=True)


def _fill(_leadline: Leadline, place: Path) -> None:
    with suppress(OSError), (place / "ballast").open("wb", buffering=0) as file:
        for block in (1 << 20, 4096, 64):
            with suppress(OSError):
                while file.write(bytes(block)) == block:
                    pass


def _trouble(
    part: str, act: Callable[[Leadline, Path], None], mend: Callable[[Path], None], *codes: int
) -> Callable[..., list[str]]:
    """``part`` of a leadline (lab, state) gets into trouble under the load; the study goes on when it is over."""

    def scenario(leadline: Leadline) -> list[str]:
        uid = "" if leadline.uid is None else str(leadline.uid)
        with _small(getattr(leadline, part), "700m" if part == "lab" else "4m", uid) as place:
            run = leadline.run()
            if not _begun(leadline, run):
                return ["no load began"]
            act(leadline, place)
            found = _ends(run, *codes)
            until(lambda: not leadline.watchdogs())
            kept = leadline.finished() if part == "lab" else {}
            mend(place)
            restored = leadline.call("restore")
            if restored.returncode:
                found.append(f"restore: {restored.stderr}")
            if part == "lab":
                if damage := leadline.damage():
                    found.append(f"the lab is damaged: {damage}")
                found += _goes_on(leadline, leadline.run(log="again.log"))
                lost = [trial for trial, text in kept.items() if leadline.finished().get(trial) != text]
                found += [f"trials {lost} are lost"] if lost else []
        return found

    return scenario


def _empty(place: Path) -> None:
    (place / "ballast").unlink(missing_ok=True)


def _read_only(leadline: Leadline, place: Path) -> None:
    done = subprocess.run(["mount", "-o", "remount,ro", str(place)], check=False, capture_output=True)
    if done.returncode:  # busy: files are open for writing; bind it over itself, read-only
        mount = ["mount"]
        if leadline.ordinary:  # it has mounts of its own
            mount = ["nsenter", "--mount", f"--target={leadline.watchdogs()[0]}", "mount"]
        subprocess.run([*mount, "--bind", str(place), str(place)], check=True)
        subprocess.run([*mount, "-o", "remount,ro,bind", str(place)], check=True)


def _writable(place: Path) -> None:
    if subprocess.run(["mount", "-o", "remount,rw", str(place)], check=False, capture_output=True).returncode:
        subprocess.run(["mount", "-o", "remount,rw,bind", str(place)], check=True)


def refused_state(leadline: Leadline) -> list[str]:
    """A state directory that cannot be written from the beginning: nothing starts."""
    uid = "" if leadline.uid is None else str(leadline.uid)
    with _small(leadline.state, "4m", uid) as place:
        _read_only(leadline, place)
        found = _ends(leadline.run(), 1, 2)
        if leadline.loading() or "trial 1/" in leadline.said():
            found.append("a trial began")
    return found


def two_of_one_lab(leadline: Leadline) -> list[str]:
    return _second(leadline, leadline.lab)


def two_of_two_labs(leadline: Leadline) -> list[str]:
    return _second(leadline, leadline.place / "other")


def two_users(leadline: Leadline) -> list[str]:
    """The second one is another user's, with a state directory, cache and lab of its own."""
    run = leadline.run()
    if not _begun(leadline, run):
        return ["no load began"]
    place = leadline.place.with_name(f"{leadline.place.name}-other")
    other = Leadline(place, leadline.stack, not leadline.ordinary, short=True)
    user = ORDINARY if leadline.ordinary else "root"
    found = [*_ends(other.run(wait=2.0), 1), *_says(other, f"in use by pid {run.pid} of user {user}")]
    return [*found, *_goes_on(leadline, run), *other.problems({}, {})]


def _second(leadline: Leadline, lab: Path) -> list[str]:
    run = leadline.run()
    if not _begun(leadline, run):
        return ["no load began"]
    found = [*_ends(leadline.run(lab, log="second.log", wait=2.0), 1), *_says(leadline, "in use by", log="second.log")]
    return [*found, *_goes_on(leadline, run)]


def restore_while_a_study_runs(leadline: Leadline) -> list[str]:
    run = leadline.run()
    if not _begun(leadline, run):
        return ["no load began"]
    done = leadline.call("restore", wait=2.0)
    found = [] if done.returncode == 1 and "in use by" in done.stderr else [f"restore: {done.returncode} {done.stderr}"]
    return [*found, *_goes_on(leadline, run)]


def watchdog_killed(leadline: Leadline) -> list[str]:
    run = leadline.run()
    if not _begun(leadline, run):
        return ["no load began"]
    kill(leadline.watchdogs()[0])
    return [*_ends(run, 1), *_says(leadline, "the watchdog of this run has died: killed by SIGKILL")]


def watchdog_stopped(leadline: Leadline) -> list[str]:
    """It is woken, and the run goes on."""
    run = leadline.run()
    if not _begun(leadline, run):
        return ["no load began"]
    kill(leadline.watchdogs()[0], signal.SIGSTOP)
    return _goes_on(leadline, run)


def stopped_and_woken(leadline: Leadline) -> list[str]:
    """It stands still for longer than its dead-man time."""
    run = leadline.run()
    if not _begun(leadline, run):
        return ["no load began"]
    (watchdog,) = leadline.watchdogs()
    kill(run.pid, signal.SIGSTOP)
    found = [] if until(lambda: gone(watchdog)) else ["the watchdog did nothing"]
    kill(run.pid, signal.SIGCONT)
    return [*found, *_ends(run, 1), *_says(leadline, "so its watchdog put the host back")]


def damaged_journal(leadline: Leadline) -> list[str]:
    """Foreign lines in the journal of a leadline that was killed with its watchdog."""
    run = leadline.run()
    if not _begun(leadline, run):
        return ["no load began"]
    for pid in (*leadline.watchdogs(), run.pid):
        kill(pid)
    run.wait()
    with (leadline.state / "undo/local.jsonl").open("ab") as journal:
        journal.write(b'[]\n5\n"x"\nnull\n{}\n\0\0\0\n[[[[\n{"id":[],"kind":{}}\n' + b"y" * (100 << 20) + b"\n{torn")
    done = leadline.call("restore")
    return [] if done.returncode == 0 else [f"restore: {done.returncode} {done.stdout} {done.stderr}"]


SCENARIOS: dict[str, Callable[[Leadline], list[str]]] = {
    "ctrl-c": _signals(signal.SIGINT),
    "ctrl-c many times": _signals(*[signal.SIGINT] * 20),
    "sigterm": _signals(signal.SIGTERM, signal.SIGTERM),
    "sighup": _signals(signal.SIGHUP),
    "ctrl-c in a terminal": _terminal(_type_control_c, 1),
    "terminal lost": _terminal(_close, 1),
    "output's reader gone": closed_pipe,
    "lab full": _trouble("lab", _fill, _empty, 1),
    "lab read-only": _trouble("lab", _read_only, _writable, 1, 3),  # 3: a service's files are not root's again
    "state full": _trouble("state", _fill, _empty, 0, 1),
    "state read-only": _trouble("state", _read_only, _writable, 0, 1, 3),
    "state read-only from the beginning": refused_state,
    "two leadlines, one lab": two_of_one_lab,
    "two leadlines, two labs": two_of_two_labs,
    "two leadlines, two users": two_users,
    "restore while a study runs": restore_while_a_study_runs,
    "watchdog killed": watchdog_killed,
    "watchdog stopped": watchdog_stopped,
    "leadline stopped": stopped_and_woken,
    "journal damaged": damaged_journal,
}
