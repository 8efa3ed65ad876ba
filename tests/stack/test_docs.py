"""Every example in the README and the docs is run, or checked where running it is another test's work."""

import contextlib
import re
import shlex
import subprocess
from itertools import pairwise, takewhile
from pathlib import Path

import pytest
from conftest import RealStudy
from typer.testing import CliRunner, Result

from leadline.checks.files.study import builtin_studies, builtin_tunings, parse_study, parse_tuning
from leadline.checks.plan import plan_study
from leadline.checks.subject import study_catalogue
from leadline.cli.main import app
from leadline.experiments.tuning import steps_left_out, tuning_catalogue
from leadline.host.local import LocalHost
from leadline.load.driver import find_binary
from leadline.places.simulated import SimulatedTestbed
from leadline.places.simulated.model import Truth
from leadline.places.testbed import LocalTestbed
from leadline.places.virtual.host import plan_guests

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]
# Their blocks are run with what they add by tests/unit/docs/test_extending.py and test_tutorials.py.
RECIPES = ("extending.md", "ci.md")
TUTORIALS = "tutorials"  # run by tests/stack/test_tutorial.py and tests/unit/docs/test_tutorials.py
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if page.name not in RECIPES and page.parent.name != TUTORIALS
)
# Commands that are whole studies, servers or tests: run by the named test instead.
ELSEWHERE = {
    "make quickstart": "by hand and in CI's fresh clone; its command is tests/stack/test_commands.py's `run`",
    "make test": "this test runs inside it",
    "make check": "half of it runs beside this test",
    "make wheel": "tests/stack/test_wheel.py",
    "make bench": "bench/",
    "make format": "formats the checkout",
    "make lock": "needs the network",
    "make site": "by hand; tests/unit/docs/test_documents.py checks links and the list of pages",
    "leadline pool": "tests/stack/test_pool_ssh.py",
    "python -m bench.fuzz": "tests/unit/bench/test_fuzz.py runs a short form",
    "leadline try": "tests/stack/test_try_real.py",
    "leadline demo": "tests/unit/cli/test_demo.py",
    "leadline quickstart": "tests/stack/test_commands.py runs a smaller study",
    "leadline run": "tests/stack/test_commands.py",
    "leadline analyse": "tests/unit/report/test_other_tools.py",
    "leadline compare": "tests/unit/cli/test_compare_cli.py",
    "leadline history": "tests/unit/cli/test_compare_cli.py",
    "leadline bisect": "tests/unit/experiments/test_bisect.py",
    "leadline knee": "tests/unit/experiments/test_knee.py",
    "leadline capacity": "tests/unit/capacity/test_capacity_command.py",
    "leadline confirm": "tests/statistics/planning/test_planning_confirm.py",
    "leadline simulate": "tests/unit/places/simulated/test_simulate_run.py",
    "leadline gate": "tests/unit/experiments/test_gate.py",
    "leadline mcp": "tests/stack/test_session_real.py",
    "leadline soak": "tests/stack/test_soak_real.py",
    "leadline ui": "tests/browser/test_ui_browser.py",
    "leadline up": "tests/stack/test_commands.py",
    "leadline down": "tests/stack/test_commands.py",
    "leadline kernels": "tests/stack/test_kernels.py",
    "leadline load": "tests/stack/test_commands.py",
    "leadline scenario": "tests/unit/load/test_load_replay.py, test_load_convert.py",
    "leadline stack": "tests/stack/test_own_application.py",
    "leadline record": "tests/browser/test_application_browser.py",
    "leadline lab init": "tests/stack/test_team_lab.py",
    "leadline lab rm": "tests/unit/store/test_removal.py",
    "leadline lab prune": "tests/unit/store/test_removal.py",
    "leadline lab copy": "tests/unit/store/test_bundles.py",
    "leadline lab merge": "tests/unit/store/test_bundles.py",
}
SAFE = (
    "doctor",
    "knobs",
    "studies",
    "show",
    "report",
    "export",
    "figures",
    "advise",
    "gc",
    "restore",
    "lab",
    "plan",
    "power",
)

STORED = ("quickstart", "pools-and-heap", "dealership-load", "pages")  # studies that the docs have in a lab
BEFOREHAND = ("plan", "power", "simulate")  # of SAFE: those that read a study file


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for text in re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            found.append((page.name, text))
    return found


def commands() -> list[tuple[str, str]]:
    """(page, command) of every line that starts with ``$`` in a console block; once where several lines are one command
    to the tests' study.
    """
    lines: dict[str, tuple[str, str]] = {}
    for page, text in blocks("console"):
        for line in text.replace("\\\n", " ").splitlines():
            command = line[2:].split("  #")[0].strip()
            words = command.split()
            if not {"--dry-run", *BEFOREHAND}.intersection(words):
                words = [STORED[0] if word in STORED else word for word in words]
            if line.startswith("$ "):
                lines.setdefault(" ".join(words).removeprefix(".venv/bin/"), (page, command))
    return list(lines.values())


def run(study: RealStudy, *arguments: str) -> Result:
    """The command inside this process, which has its modules loaded; test_commands.py runs it as a user does."""
    with contextlib.chdir(study.directory):
        return CliRunner().invoke(app, list(arguments))


def test_there_are_examples() -> None:
    assert len(commands()) >= 10
    assert {"README.md", "study-file.md"} <= {page for page, _ in commands()}


@pytest.mark.parametrize(("page", "command"), commands())
def test_a_command_in_the_docs_works(page: str, command: str, real_study: RealStudy, tmp_path: Path) -> None:
    words = shlex.split(command.replace(".venv/bin/", ""))
    if " ".join(words[:3]) in ELSEWHERE:
        return
    if words[0] == "leadline" and "--dry-run" not in words and words[1] in SAFE:
        arguments = [_real(word, real_study, stored=words[1] not in BEFOREHAND) for word in words[1:]]
        done = run(real_study, *arguments)
        assert done.exit_code == 0 or words[1] == "doctor", f"{page}: {command}: {done.output}{done.exception}"
        assert done.stdout
    elif words[:2] == ["leadline", "run"] and "--dry-run" in words:
        name = next(word for word in words[2:] if not word.startswith("-"))
        if name in builtin_studies() or name in builtin_tunings():
            done = run(real_study, *words[1:])
            assert done.exit_code == 0, f"{page}: {command}: {done.output}{done.exception}"
            assert "trials" in done.stdout
    elif words[:3] == ["leadline", "scenario", "export"]:
        arguments = [str(tmp_path / word) if before in ("-o", "--out") else word for before, word in pairwise(words)]
        done = run(real_study, *arguments)
        assert done.exit_code == 0, f"{page}: {command}: {done.output}{done.exception}"
        assert any(tmp_path.iterdir())
    elif words[0] in ("leadline", "make"):
        assert any(command.replace(".venv/bin/", "").startswith(known) for known in ELSEWHERE), f"{page}: {command}"
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"{page}: {command}"
    elif words[:2] == ["python", "-m"]:
        assert any(command.startswith(known) for known in ELSEWHERE), f"{page}: {command}"
        assert (ROOT / words[2].replace(".", "/") / "__main__.py").exists(), f"{page}: {command}"
    else:
        script = next((word for word in words if word.endswith((".py", ".sh", ".toml", ".xml"))), None)
        assert script is not None, f"{page}: {command}: an example nothing checks"
        assert (ROOT / script).exists() or words[0] == "pip", f"{page}: {command}: no {script}"


def mentions() -> list[tuple[str, str]]:
    """(page, command) of every command line in a block that is not a console's."""
    found = []
    for page in PAGES:
        for text in re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for line in text.replace("\\\n", " ").splitlines():
                words = line.strip().removeprefix(".venv/bin/")
                if re.match(r"leadline [a-z]+ |leadline-load run ", words):
                    found.append((page.name, words.split("  #")[0]))
    return found


def test_options_in_the_docs_exist(real_study: RealStudy) -> None:
    helps: dict[str, str] = {}

    def help_of(*words: str) -> str:
        name = " ".join(words)
        if name not in helps:
            if words[0] == "leadline-load":
                driver = str(find_binary())
                helps[name] = subprocess.run([driver, "run", "--help"], capture_output=True, text=True).stdout
            else:
                helps[name] = run(real_study, *words, "--help").stdout
        return helps[name]

    missing = []
    listed = mentions()
    assert len(listed) >= 10
    for page, line in listed:
        words = shlex.split(line)
        known = help_of("leadline-load")
        if words[0] == "leadline":
            deep = 2 if words[1] == "scenario" else 1
            known = help_of(*words[1 : deep + 1]) + (known if words[1] == "load" else "")
            assert known, f"{page}: {line}"
        before = takewhile(lambda word: word != "--" and not word.startswith("--options"), words)
        for option in (match[0] for word in before if (match := re.match(r"--[a-z][a-z0-9-]*", word))):
            if not re.search(rf"(?<![\w-]){option}(?![\w-])", known):
                missing.append(f"{page}: {line}: no {option}")
    assert not missing, "\n".join(missing)


def _real(word: str, study: RealStudy, *, stored: bool) -> str:
    """Names in the docs stand for the real study's, where a command wants one that has run."""
    if word == "gc.log":
        return str(Path(study.document["trials"][0]["directory"]) / "raw" / "gc.log")
    if "/" in word and (ROOT / word).is_file():
        return str(ROOT / word)
    if stored and word == "lab/simulated":  # as tests/unit/report/test_report_ci.py has it
        return "lab"
    return "mini" if stored and word in STORED else word


@pytest.mark.parametrize(("page", "text"), [pair for pair in blocks("yaml") if pair[1].startswith("study:")])
def test_a_study_in_the_docs_can_be_planned(page: str, text: str) -> None:
    if "stack: shop.stack.yaml" in text:  # tests/stack/test_own_application.py runs it
        assert text in [path.read_text() for path in (ROOT / "examples" / "shop").glob("*.study.yaml")]
        return
    file = parse_study(text, page)
    kind = file.study.stack.host
    if "server_cpus" in text and len(LocalHost().cpus()) < 16:  # of a machine with more CPUs than this one may have
        assert SimulatedTestbed(Truth(), Path()).plan(file).plan.trials
    elif kind == "local":
        assert plan_study(file, LocalHost(), study_catalogue(file)).plan.trials
    else:
        assert plan_guests(file, kind, study_catalogue(file)).plan.trials


@pytest.mark.parametrize(("page", "text"), [pair for pair in blocks("yaml") if pair[1].startswith("tuning:")])
def test_a_tuning_in_the_docs_can_be_planned(page: str, text: str) -> None:
    file = parse_tuning(text, page)
    assert steps_left_out(file, LocalTestbed(Path(), service_knobs=tuning_catalogue(file))) == {}
