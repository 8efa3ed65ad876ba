"""Studies in guests: what they can be, and what is refused with its line."""

import pytest

from leadline.checks.files.study import parse_study
from leadline.checks.subject import study_catalogue
from leadline.model.errors import UsageError
from leadline.model.guest import Guest
from leadline.model.study import Study as StudyModel
from leadline.places.virtual.host import plan_guests

STUDY = """\
study: settings
question: What do settings of a kernel change?
stack: { server: tomcat, host: virtual-time }
guest: { memory: 1g, cpus: 1, kernel: 6.1-cloud }
workload: { users: 8, ramp_up: 6s, steady: 4s, ramp_down: 1s }
factors:
  vm.swappiness: [60, 10]
  vm.dirty_ratio: [20, 5, 60]
design: { kind: forks, worlds: 3 }
"""


def study(*overrides: str, text: str = STUDY) -> StudyModel:
    return parse_study(text, "settings.yaml", overrides).study


def test_a_study_of_forks() -> None:
    found = study()
    assert found.guest == Guest(memory=1 << 30, cpus=1, kernel="6.1-cloud")
    assert (found.time, found.design.treatments, found.design.replicates, found.design.sentinels) == (
        "virtual",
        "one-at-a-time",
        3,
        None,
    )
    assert StudyModel.model_validate_json(found.model_dump_json()) == found  # as a lab keeps it
    assert study("design.of=full-factorial").design.treatments == "full-factorial"


def test_a_machine_in_real_time() -> None:
    text = STUDY.replace("virtual-time", "vm").replace("kind: forks, worlds: 3", "replicates: 3")
    found = study("wait=quiet", "reset.page_cache=drop", text=text)
    assert (found.time, found.stack.host) == ("real", "vm")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "stack.host=local",
            "settings.yaml:4: guest is of `host: virtual-time` or `host: vm` in stack, and this study",
        ),
        ("stack.host=vm", "settings.yaml:9: only virtual time can fork, and this study runs on vm: write `host: virt"),
        (
            "design={replicates: 3}",
            "settings.yaml:3: a study in virtual time compares forks of one guest: write `design: {",
        ),
        ("design={kind: forks}", "forks need worlds, to be compared in: write `worlds: 10`"),
        ("design.kind=one-at-a-time", "worlds works with forks only: write `kind: forks`, or leave worlds out"),
        ("design.worlds=0", "design.worlds: 0 is not between 1 and 1,000"),
        ("design.replicates=5", "the worlds of forks are the replicates: leave replicates out"),
        ("design.sentinels=6", "a fork has no order in time that a sentinel could watch: leave sentinels out"),
        ("design.blocks=latin", "each world of forks is a block: leave blocks out"),
        ("design.looks=3", "forks are analysed once, at the end: leave looks out"),
        ("design.of=forks", "design.of is 'forks', not one of one-at-a-time"),
        ("design.switchback.slot=2s", "nothing is changed in a guest while it is loaded: leave slots out"),
        ("design.rotation.slot=2s", "nothing is changed in a guest while it is loaded: leave the rotation out"),
        ("guest.memory=64m", "guest.memory: 64m is not between 128m and 1t"),
        ("guest.cpus=0", "guest.cpus: 0 is not between 1 and 64"),
        ("guest.kernle=6.1-cloud", "unknown key 'kernle'; did you mean kernel?"),
        ("settings.guest.kernel=6.12-cloud", "settings.yaml:4: the kernel is a setting, too: keep one of them"),
        ("wait=quiet", "no other program can disturb virtual time, so there is nothing to wait for"),
        ("repeat.at_most=2", "so no trial is repeated: leave repeat out"),
        ("covariates=[others_cpu]", "the machine's figures explain nothing: leave covariates out"),
        ("reset.page_cache=drop", "a fork begins with the page cache of its world"),
        ("reset.swap=off", "a fork begins with the swap of its world"),
        ("reset.database=keep", "a fork begins with the database of its world"),
        ("workload.ramp_up=auto", "a guest is not asked whether it is warm: leave warm_up out, and write ramp_up as a"),
        ("workload.generator={name: wrk}", "leadline-load runs inside the guest, no other generator does"),
        ("workload.cpu_latency=0", "a guest's CPUs have no idle states to bound"),
        ("drivers=[local]", "the driver runs inside the guest: leave drivers out"),
        ("stack.java=/opt/jdk", "the guest gets the runtime that leadline finds on this machine"),
        ("placement.server_cpus=0-1", "0-1: the guest has 1 CPU, numbered from 0; write more `cpus` in guest"),
        ("placement.database_memory=2g", "2g is more than the guest has (1g); write more `memory` in guest"),
    ],
)
def test_what_a_guest_cannot_have_is_refused_with_its_place(override: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        study(override)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_tuning_runs_on_machines() -> None:
    from leadline.checks.files.study import find_tuning

    with pytest.raises(UsageError, match=r"stack\.host is 'virtual-time', not one of local"):
        find_tuning("daytrader", ["stack.host=virtual-time"])


def test_limits_of_knobs_are_those_of_the_guest() -> None:
    file = parse_study(STUDY, "settings.yaml", ["factors.vm.min_free_kbytes=[16384, 600000]"])
    planned = plan_guests(file, "virtual-time", study_catalogue(file))  # half the memory is dangerous: it is disposable
    assert planned.machine.memory == 1 << 30
    assert planned.settings == {"guest.kernel": "6.1-cloud"}
    assert planned.knobs["guest.kernel"].apply_cost == "reboot"
