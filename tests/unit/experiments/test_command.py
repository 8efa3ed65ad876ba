"""Programs timed as whole processes: real ones, short."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.experiments.command_files import compared_files, document
from leadline.host import timed
from leadline.host.timed import Stopwatch
from leadline.model.errors import UsageError
from leadline.model.result import Verdict
from leadline.report.command_text import answer, lines
from leadline.trial.command import CommandComparison, Timing, commands_of, compare

SLOW = "import time; memory = bytearray(20_000_000); time.sleep({s})"  # more than who starts it has


def no_drop() -> None:
    raise AssertionError("the page cache was to stay")


def compared(*texts: str, how: Timing) -> CommandComparison:
    return compare(commands_of(texts, {}), how, no_drop)


def test_a_run_is_measured_as_a_whole() -> None:
    program = (
        "import os\nfor _ in range(2_000_000): pass\nos.wait4(os.posix_spawn('/bin/sleep', ['sleep', '0.2'], {}), 0)"
    )
    with Stopwatch() as watch:
        found = watch.time([sys.executable, "-c", program], 60)
    assert not found.why
    assert not found.left
    assert found.figures["wall"] > 0.2
    assert found.figures["user"] + found.figures["system"] > 0
    assert found.figures["minor"] > 100
    assert found.figures["voluntary"] >= 1
    assert found.figures["peak_kib"] > 5000


def test_an_event_is_counted_over_what_was_started_and_not_over_who_started_it() -> None:
    """A clock of the kernel's in place of the CPU's instructions, which virtual machines seldom count."""
    try:
        counter = timed.Counter(kind=1, event=1)  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, ns
    except OSError as error:
        pytest.skip(f"host: perf_event_open: {error}")
    before = counter.read()
    assert before is not None
    begun = time.thread_time_ns()
    sum(range(5_000_000))
    assert abs((counter.read() or 0) - before) < (time.thread_time_ns() - begun) / 10
    program = [sys.executable, "-I", "-S", "-c", "for _ in range(3_000_000): pass"]
    _, _, used = os.wait4(os.posix_spawn(program[0], program, {}), 0)
    after = counter.read()
    assert after is not None
    assert (after - before) / 1e9 == pytest.approx(used.ru_utime + used.ru_stime, rel=0.6)  # others take caches


def test_instructions_are_a_response_where_they_are_counted() -> None:
    with Stopwatch() as watch:
        found = watch.time(["/bin/true"], 10.0)
    assert ("instructions" in found.figures) is (timed.instructions() is not None)


def test_failures_have_their_reason_and_are_no_figures() -> None:
    with Stopwatch() as watch:
        assert watch.time(["/bin/sh", "-c", "echo no disk >&2; exit 3"], 60).why == "exit code 3: no disk"
        assert watch.time(["/bin/sh", "-c", "kill -9 $$"], 60).why == "exit code 137"
        assert watch.time(["/bin/sh", "-c", "exit 3"], 60, None).why == ""
        assert "No such file" in watch.time(["/not/there"], 60).why
        begun = time.monotonic()
        assert "longer than 0.2 s" in watch.time(["sleep", "30"], 0.2).why
        assert time.monotonic() - begun < 20
        assert not watch.time(["true"], 60).why  # and it goes on


def test_what_a_program_leaves_behind_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with Stopwatch() as watch:
        found = watch.time(["/bin/sh", "-c", f"sleep 300 & echo $! > {file}"], 60)
    assert found.left
    assert ended(int(file.read_text()))


def test_who_asked_may_be_killed_and_nothing_stays(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = (
        "from leadline.host.timed import Stopwatch\n"
        f"with Stopwatch() as watch: watch.time(['/bin/sh', '-c', 'echo $$ > {file}; exec sleep 300'], 600)"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    until = time.monotonic() + 60
    while not (file.exists() and file.read_text().strip()) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert ended(int(file.read_text()))


def ended(pid: int) -> bool:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_slower_program_is_found_and_the_order_was_mixed() -> None:
    found = compared("sleep 0.01", "sleep 0.06", how=Timing(runs=10, seed=3))
    assert found.analysis is not None
    (effect,) = found.analysis.responses[0].effects
    assert effect.verdict is Verdict.WORSE
    assert effect.percent is not None
    assert effect.percent > 100
    assert "'sleep 0.06' takes" in answer(found)
    assert "more time than 'sleep 0.01'" in answer(found)
    order = [run.command for run in found.runs]
    assert order != sorted(order)
    assert all(sorted(order[at : at + 2]) == [0, 1] for at in range(0, 20, 2))
    assert any("Order:" in line for line in lines(found))


@pytest.mark.parametrize("order", ["abba", "latin", "williams"])
def test_orders(order: str) -> None:
    found = compared("true", "/bin/true", how=Timing(runs=4, order=order, warmup=0))  # type: ignore[arg-type]
    assert sorted(run.command for run in found.runs) == [0] * 4 + [1] * 4


def test_failed_runs_are_told_and_left_out(tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    sometimes = f"if [ -e {flag} ] && [ $(wc -c < {flag}) -gt 2 ]; then echo full >&2; exit 1; fi; echo >> {flag}"
    found = compared("sleep 0.001", sometimes, how=Timing(runs=6))
    assert len(found.failed) == 4
    assert "4 of 12 runs failed." in answer(found)
    assert any("exit code 1: full" in line for line in lines(found))


def test_one_pair_of_times_is_no_conclusion(tmp_path: Path) -> None:
    assert answer(compared("true", "sleep 0.01", how=Timing(runs=1))).startswith("No conclusion: one pair")
    published = {"results": [{"command": "disk", "times": [4.334]}, {"command": "RAM disk", "times": [4.257]}]}
    file = tmp_path / "published.json"
    file.write_text(json.dumps(published), encoding="utf-8")
    assert answer(compared_files([file], 2.0)).startswith("No conclusion: one pair")
    assert "one command" in answer(compared("true", how=Timing(runs=3)))


def test_files_are_those_of_hyperfine_and_are_read_again(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW.format(s="float(__import__('sys').argv[1])"))
    program = f"{sys.executable} -I -S {tmp_path}/slow.py"  # without signs of the shell, which are told of
    found = compared(f"{program} 0", f"{program} 0.02", how=Timing(runs=6, order="abba"))
    file = tmp_path / "out.json"
    file.write_text(json.dumps(document(found)), encoding="utf-8")
    again = compared_files([file], 2.0)
    assert answer(again) == answer(found)
    assert lines(again)[1:] == [line for line in lines(found)[1:] if line not in found.notes]  # files keep no notes
    read = json.loads(file.read_text(encoding="utf-8"))
    assert [len(one["times"]) for one in read["results"]] == [6, 6]
    del read["leadline"]
    file.write_text(json.dumps(read), encoding="utf-8")
    assert "order of the runs is unknown" in answer(compared_files([file], 2.0))


TIMES = {"a": [0.100, 0.101, 0.099, 0.102, 0.1], "b": [0.103, 0.104, 0.102, 0.105, 0.103]}


def hyperfine(path: Path, times: dict[str, list[float]] = TIMES, **codes: list[int | None]) -> Path:
    """A file of hyperfine's with an exit code for each time."""
    results = [{"command": one, "times": of, "exit_codes": codes.get(one, [0] * len(of))} for one, of in times.items()]
    path.write_text(json.dumps({"results": results}), encoding="utf-8")
    return path


def test_an_order_that_a_file_does_not_hold_stays_unknown_through_every_export(tmp_path: Path) -> None:
    found = compared_files([hyperfine(tmp_path / "a.json")], 2.0)
    for number in range(2):
        assert "in an unknown order" in lines(found)[0]
        assert not any("none seen" in line or "page cache" in line for line in lines(found))
        assert "The order of the runs is unknown" in answer(found)
        kept = document(found)
        assert kept["leadline"]["order"] == kept["leadline"]["cache"] == "unknown"
        assert "seed" not in kept["leadline"]
        assert not any({"started", "block"} & set(run) for run in kept["leadline"]["runs"])
        (tmp_path / f"{number}.json").write_text(json.dumps(kept), encoding="utf-8")
        found = compared_files([tmp_path / f"{number}.json"], 2.0)


def test_blocks_that_contradict_random_blocks_are_refused(tmp_path: Path) -> None:
    kept = document(compared_files([hyperfine(tmp_path / "a.json")], 2.0))
    kept["leadline"] |= {"order": "random", "seed": 1}
    kept["leadline"]["runs"] = [run | {"block": 0, "started": at} for at, run in enumerate(kept["leadline"]["runs"])]
    (tmp_path / "b.json").write_text(json.dumps(kept), encoding="utf-8")
    with pytest.raises(UsageError, match="block 0 has command 0 twice, so the order was not random blocks"):
        compared_files([tmp_path / "b.json"], 2.0)


def test_failed_runs_of_a_file_are_failures_and_no_times(tmp_path: Path) -> None:
    file = hyperfine(tmp_path / "a.json", a=[0, 0, 0, 0, None], b=[0, 0, 0, 0, 7])
    found = compared_files([file], 2.0)
    assert [len(found.of(at, "wall")) for at in (0, 1)] == [4, 4]
    assert [run.why for run in found.failed] == ["ended by a signal", "exit code 7"]
    assert answer(found).startswith("2 of 10 runs failed.")
    assert not compared_files([file], 2.0, ignore_failure=True).failed


def test_several_files_are_one_comparison_of_unknown_order(tmp_path: Path) -> None:
    parts = [hyperfine(tmp_path / f"{name}.json", {name: times}) for name, times in TIMES.items()]
    together, whole = compared_files(parts, 2.0), compared_files([hyperfine(tmp_path / "c.json")], 2.0)
    assert lines(together) == lines(whole)
    assert answer(together) == answer(whole)


def test_outliers_are_told_with_an_estimate_that_they_hardly_move(tmp_path: Path) -> None:
    calm = {"a": [*TIMES["a"], *TIMES["a"]], "b": [*TIMES["b"], *TIMES["b"]]}
    found = compared_files([hyperfine(tmp_path / "a.json", {**calm, "a": [1.5, *calm["a"][1:]]})], 2.0)
    assert "Outliers of a: 1 of 10 runs (run 1: 1.50 s)" in lines(found)
    assert found.by_ranks[1].percent == pytest.approx(3.0, abs=0.5)
    assert "By ranks, which outliers hardly move, 'b' takes +3" in answer(found).replace("takes 3", "takes +3")
    assert not compared_files([hyperfine(tmp_path / "b.json", calm)], 2.0).outliers


@pytest.mark.parametrize("wrapped", ["\ufeff{}", "[]"])
def test_a_byte_order_mark_and_the_bare_list_are_read(wrapped: str, tmp_path: Path) -> None:
    text = hyperfine(tmp_path / "a.json").read_text(encoding="utf-8")
    text = json.dumps(json.loads(text)["results"]) if wrapped == "[]" else f"\ufeff{text}"
    (tmp_path / "b.json").write_text(text, encoding="utf-8")
    assert answer(compared_files([tmp_path / "b.json"], 2.0)) == answer(compared_files([tmp_path / "a.json"], 2.0))


OWN = '{"results": [{"command": "a"}], "leadline": {"order": "%s", "runs": [%s]}}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "not what `hyperfine --export-json` writes: results is missing"),
        ("[", "not what `hyperfine --export-json` writes: no JSON: Expecting value: line 1 column 2"),
        ("3", "an object with `results`, a list of commands, is wanted"),
        ("[" * 9999, "no JSON"),
        ('{"results": []}', "it holds no command"),
        ('{"results": [{"command": "a"}]}', "it holds no time of a run"),
        ('{"results": [{"command": "a", "times": [1, -1]}]}', "results[0].times[1] ('a') is -1 s, not more than 0"),
        ('{"results": [{"command": "a", "times": [0.0]}]}', "hyperfine -N"),
        ('{"results": [{"command": "a", "times": [null]}]}', "results[0].times[0] is null: "),
        ('{"results": [{"command": "a", "times": [NaN]}]}', "results[0].times[0] is NaN: "),
        ('{"results": [{"command": "a", "times": [1, 2], "exit_codes": [0]}]}', "2 times and 1 exit codes"),
        ('{"results": [{"times": [1]}]}', "results[0].command is missing"),
        (OWN % ("sorted", ""), "leadline.order is 'sorted': "),
        (OWN % ("random", '{"command": 1, "figures": {"wall": 1}, "started": 0}'), "command is 1; the file has 1 comm"),
        (OWN % ("random", '{"command": 0, "figures": {}, "started": 0}'), "is not a time of more than 0 s"),
        (OWN % ("random", '{"command": 0, "figures": {"wall": 1}}'), "`started` is missing"),
    ],
)
def test_files_that_are_none(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        compared_files([file], 2.0)
    assert str(file) in str(error.value)
    assert words in str(error.value)
    assert not any(sign in str(error.value) for sign in ("Error(", "None", "nan", "{'"))


def test_commands_and_their_parameters() -> None:
    found = commands_of(["echo {n}", "sleep 1"], {"n": ["1", "2"]})
    assert [one.text for one in found] == ["echo 1", "echo 2", "sleep 1"]
    assert found[1].parameters == {"n": "2"}
    assert not found[0].shell
    assert commands_of(["a | b"], {})[0].argv == ("/bin/sh", "-c", "a | b")
    assert commands_of(["A=1 b"], {})[0].shell
    assert not commands_of(["a | b"], {}, False)[0].shell
    for texts, lists, words in (
        (["true", "true"], {}, "given twice"),
        (["true"], {"n": ["1"]}, "no command names {n}"),
        (["a 'b"], {}, "No closing quotation"),
        ([""], {}, "name a program"),
    ):
        with pytest.raises(UsageError) as error:
            commands_of(texts, lists)  # type: ignore[arg-type]
        assert words in str(error.value)


def test_a_command_that_fails_at_once_is_refused_before_anything_is_timed() -> None:
    with pytest.raises(UsageError) as error:
        compared("true", "false", how=Timing(runs=3))
    assert "command 'false' fails: exit code 1; --ignore-failure" in str(error.value)
    with pytest.raises(UsageError) as error:
        compared("true", "false", how=Timing(runs=3, ignore_failure=True, setup="exit 4"))
    assert "--setup 'exit 4' fails" in str(error.value)
    assert not compared("true", "false", how=Timing(runs=3, ignore_failure=True)).failed


def test_what_is_run_beside(tmp_path: Path) -> None:
    file = tmp_path / "log"
    how = Timing(runs=2, setup=f"echo s >> {file}", prepare=f"echo p >> {file}", cleanup=f"echo c >> {file}")
    compared("true", "/bin/true", how=how)
    assert file.read_text(encoding="utf-8").split() == ["s", *["p"] * 6, "c"]


def test_an_interruption_keeps_what_was_measured(tmp_path: Path) -> None:
    runs = 0

    def interrupt() -> None:
        nonlocal runs
        runs += 1
        if runs == 7:
            os.kill(os.getpid(), signal.SIGINT)

    found = compare(commands_of(["true", "/bin/true"], {}), Timing(runs=20, cache="cold"), interrupt)
    assert found.interrupted
    assert len(found.runs) == 6
    assert found.analysis is not None
    assert "interrupted" in lines(found)[0]


def test_the_condition_of_the_page_cache_is_held_against_what_was_read(tmp_path: Path) -> None:
    dropped: list[int] = []
    found = compare(
        commands_of(["true", "true #2"], {}, False), Timing(runs=2, cache="cold"), lambda: dropped.append(1)
    )
    assert len(dropped) == 4
    assert any(note.startswith("Cold in name only") for note in found.notes)  # nothing was dropped
    file = tmp_path / "out.json"
    file.write_text(json.dumps(document(found)), encoding="utf-8")
    assert "dropped before each run" in lines(compared_files([file], 2.0))[0]
