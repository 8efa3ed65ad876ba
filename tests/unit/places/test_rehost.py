"""A study on another kind of host than its file says."""

import pytest

from leadline.checks.files.study import StudyFile, find_study, parse_study
from leadline.model.errors import UsageError
from leadline.places.rehost import on_host

HERE = """\
study: paging
question: q
stack: { server: tomcat }
workload: { users: 8, ramp_up: 4s, steady: 4s, ramp_down: 1s }
factors: { vm.swappiness: [60, 10] }
design: { kind: full-factorial, replicates: 5, blocks: by-replicate, sentinels: 4, seed: 7 }
"""
FORKS = HERE.replace("tomcat }", "tomcat, host: virtual-time }\nguest: { memory: 1g }").replace(
    "design: { kind: full-factorial, replicates: 5, blocks: by-replicate, sentinels: 4, seed: 7 }",
    "design: { kind: forks, of: full-factorial, worlds: 5, seed: 7 }",
)


def study(text: str) -> StudyFile:
    return parse_study(text, "paging.yaml")


def test_replicates_are_worlds_in_virtual_time() -> None:
    chosen = on_host(study(HERE), "virtual-time")
    found = chosen.file.study
    assert (found.stack.host, found.design.kind, found.design.of) == ("virtual-time", "forks", "full-factorial")
    assert (found.design.worlds, found.design.sentinels, found.design.seed) == (5, None, 7)
    assert chosen.notes[1] == "5 replicates are 5 worlds, each with forks of all treatments (full-factorial)"


@pytest.mark.parametrize("word", ["vm", "here"])
def test_worlds_are_replicates_where_nothing_forks(word: str) -> None:
    chosen = on_host(study(FORKS), word)
    found = chosen.file.study
    assert (found.design.kind, found.design.replicates, found.design.worlds) == ("full-factorial", 5, None)
    assert (found.guest is None) == (word == "here")
    assert "5 worlds are 5 replicates (full-factorial), in real time" in chosen.notes
    assert any("guest is left out" in note for note in chosen.notes) == (word == "here")


def test_there_and_back_is_the_same_study() -> None:
    there = on_host(study(FORKS), "vm").file
    assert on_host(there, "virtual-time").file.study == study(FORKS).study


def test_its_own_kind_of_host_changes_nothing_and_the_file_stays_as_it_is() -> None:
    file = study(HERE)
    assert on_host(file, "here").file is file
    assert on_host(file, "local").notes == ()
    on_host(file, "virtual-time")
    assert file.study == study(HERE).study
    assert "worlds" not in file.places.tree["design"]


@pytest.mark.parametrize("word", ["vm", "virtual-time", "here"])
@pytest.mark.parametrize(
    ("name", "treatments"),
    [("kernels-vmm", "within-each"), ("kernels-web", "one-at-a-time"), ("kernels-app", "full-factorial")],
)
def test_kernels_of_built_in_studies_can_be_had_in_guests_alone(name: str, treatments: str, word: str) -> None:
    file = find_study(name)
    if word != "here":
        assert on_host(file, word).file.study.design.treatments == treatments
        return
    with pytest.raises(UsageError, match=rf"^--host here: {name}.yaml \(built in\):\d+: guest.kernel \(6.1-cloud, "):
        on_host(file, word)


def test_a_limit_of_memory_counts_the_swap_that_a_machine_may_not_have() -> None:
    kernels = ["kernel.release=6.1.0-30-amd64,6.12.9-amd64"]
    file = find_study("kernels-vmm", factors=kernels)
    chosen = on_host(file, "ssh:app")
    assert chosen.file.study.placement.database_memory == (32 + 128) << 20
    assert "placement.database_memory is 160m: 128m of it was the guest's swap" in chosen.notes
    assert on_host(find_study("kernels-vmm"), "vm").file.study.placement == file.study.placement
    own = find_study("kernels-vmm", ["placement.database_memory=64m"], kernels)
    assert on_host(own, "ssh:app").file.study.placement.database_memory == 64 << 20


@pytest.mark.parametrize("name", ["kernels", "kernels-vmm", "kernels-web", "kernels-app"])
def test_kernels_that_a_host_over_ssh_has_stand_for_those_of_guests(name: str) -> None:
    with pytest.raises(UsageError, match=r"guest.kernel \(6.1.*; or add --factor kernel.release=A,B with kernels"):
        on_host(find_study(name), "ssh:app")
    file = find_study(name, factors=["kernel.release=6.1.0-30-amd64,6.12.9-amd64"])
    chosen = on_host(file, "ssh:app")
    found = chosen.file.study
    assert found.factors["kernel.release"] == ["6.1.0-30-amd64", "6.12.9-amd64"]
    assert set(file.study.factors) - set(found.factors) == {"guest.kernel"}
    assert found.design.each == ("kernel.release" if name == "kernels-vmm" else None)
    assert "guest.kernel is left out: the kernels are those of kernel.release" in chosen.notes


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("ssh", r"^--host 'ssh' names no host; write ssh:NAME, an alias of ~/.ssh/config or user@host$"),
        ("ssh:-oProxyCommand=x", "'-oProxyCommand=x' is no host; write an alias"),
        ("ssh:app:99999", "'app:99999' is no host"),
        ("virtual", "there is no such kind of host; did you mean virtual-time"),
        ("cloud9", "there is no such kind of host; write here, vm, virtual-time or ssh:NAME"),
        ("", "there is no such kind of host"),
    ],
)
def test_other_kinds_are_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        on_host(study(HERE), word)


@pytest.mark.parametrize("word", ["ssh:app", "ssh+sudo:me@app:2222"])
def test_a_host_over_ssh(word: str) -> None:
    chosen = on_host(study(HERE), word)
    assert chosen.file.study.stack.host == word
    assert chosen.notes == (f"--host {word}, where the file says here",)
    assert str(chosen.file.study.stack.ssh) == word
    assert on_host(chosen.file, "here").file.study.stack.ssh is None


def test_hosts_by_role_give_way_to_one_host() -> None:
    named = "stack: { server: tomcat, hosts: { application: 'ssh:app', database: 'ssh:db' } }"
    file = study(HERE.replace("stack: { server: tomcat }", named))
    assert {role: str(host) for role, host in file.study.stack.ssh_hosts.items()} == {
        "application": "ssh:app",
        "database": "ssh:db",
    }
    chosen = on_host(file, "ssh:other")
    assert str(chosen.file.study.stack.ssh) == "ssh:other"
    assert list(chosen.file.study.stack.ssh_hosts) == ["application"]
    assert chosen.notes == ("--host ssh:other, where the file says ssh:app and ssh:db",)


@pytest.mark.parametrize(
    ("text", "word", "message"),
    [
        (
            HERE.replace("seed: 7", "rotation: { slot: 4s }"),
            "vm",
            r"^--host vm: paging.yaml:6: nothing is changed in a guest while it is loaded: leave the rotation out$",
        ),
        (
            HERE + "repeat: { at_most: 2 }\n",
            "virtual-time",
            r"^--host virtual-time: paging.yaml:7: .*leave repeat out$",
        ),
        (HERE + "responses: [p50, completion_p50]\n", "vm", r"^--host vm: paging.yaml:7: completion_p50 is read from"),
        (
            FORKS.replace("{ vm.", "{ guest.preempt: [full, none], vm."),
            "here",
            r"^--host here: paging.yaml:6: guest.preempt \(full, none\) is of virtual machines.*--host vm or",
        ),
        (HERE + "placement: { server_cpus: '1' }\n", "vm", r"^--host vm: paging.yaml:7: 1: the guest has 1 CPU"),
    ],
)
def test_what_that_host_cannot_do_is_said_with_its_line(text: str, word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        on_host(study(text), word)
