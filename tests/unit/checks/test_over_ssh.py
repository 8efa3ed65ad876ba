"""What a study cannot have whose roles have hosts of their own, refused before a host is asked."""

import pytest
from known_knobs import service_catalogue

from leadline.checks.files.study import parse_study
from leadline.checks.machine import check_far_machine, check_over_ssh
from leadline.checks.plan import plan_study
from leadline.checks.subject import study_catalogue
from leadline.host.base import Ability
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError
from leadline.model.knob import Level, Machine
from leadline.model.study import HOST_ROLES

STUDY = """\
study: roles
question: Which?
stack:
  app: APP
  server: tomcat
  hosts:
    application: ssh:app
    HOST
workload: { SCENARIO users: 4 }
factors:
  FACTOR
settings: { SETTINGS }
"""
NGINX, HEAP = "web.server: nginx", "jvm.heap: [128m, 256m]"


def check(host: str, settings: str = "", factor: str = HEAP, app: str = "brokerage") -> None:
    text = STUDY.replace("APP", app).replace("HOST", host).replace("FACTOR", factor).replace("SETTINGS", settings)
    text = text.replace("SCENARIO", "scenario: dealership," if app == "dealership" else "")
    file = parse_study(text, "roles.yaml")
    check_over_ssh(file)
    plan_study(file, LocalHost(), service_catalogue("tomcat", "postgres"))


@pytest.mark.parametrize(
    ("host", "settings", "factor", "app"),
    [
        ("web: ssh:front", NGINX, HEAP, "brokerage"),
        ("web: ssh:front", f"{NGINX}, web.place: own", HEAP, "brokerage"),
        ("web: ssh:front", NGINX, "web.place: [absent, own]", "brokerage"),
        ("web: ssh:front", f"{NGINX}, web.backlog: 60000, net.core.somaxconn: 128", HEAP, "brokerage"),
        ("web: ssh:app", f"{NGINX}, web.place: same, web.upstream: unix", HEAP, "brokerage"),
        ("supplier: ssh:sup", "", HEAP, "dealership"),
    ],
)
def test_roles_that_fit(host: str, settings: str, factor: str, app: str) -> None:
    check(host, settings, factor, app)


class Role(LocalHost):
    """A host of a role: its name, what its kernel takes and its memory are its own, and it lets nobody be root."""

    def __init__(self, role: str) -> None:
        self.role = role
        super().__init__()

    @property
    def name(self) -> str:
        return f"ssh:{self.role}"

    @property
    def where(self) -> str:
        return f"on {self.name}"

    def read_back(self, name: str) -> Level:
        return (
            {"web": 128, "application": 65535}[self.role] if name == "net.core.somaxconn" else super().read_back(name)
        )

    def machine(self) -> Machine:
        return Machine({"database": 1 << 28, "web": 1 << 27}.get(self.role, 1 << 34))

    def lacks(self, ability: Ability) -> str:
        return "needs root" if self.role in ("web", "supplier") and ability is not Ability.MEMORY_LIMIT else ""


ROLES = """\
study: roles
question: Which?
stack:
  app: dealership
  server: tomcat
  hosts: { application: ssh:application, web: ssh:web, database: ssh:database, supplier: ssh:supplier }
workload: { scenario: dealership, users: 4 }
factors: { jvm.heap: [128m, 2g] }
settings: { web.server: nginx, SETTINGS }
REST
"""


def check_roles(settings: str, rest: str = "") -> None:
    file = parse_study(ROLES.replace("SETTINGS", settings).replace("REST", rest), "roles.yaml")
    hosts = {role: Role(role) for role in HOST_ROLES}
    catalogue = study_catalogue(file)
    plan_study(file, hosts["application"], catalogue, of=hosts.__getitem__)
    check_far_machine(file, hosts.__getitem__, LocalHost())


def test_levels_that_fit_the_host_of_their_role() -> None:
    check_roles("web.backlog: 128, database.shared_buffers: 128m", "placement: { web_memory: 128m }")


@pytest.mark.parametrize(
    ("settings", "rest", "words"),
    [
        (
            "web.backlog: 129",
            "",
            r"^roles\.yaml:9: web\.backlog 129 is more than the kernel of ssh:web takes \(net\.core\.somaxconn is"
            r" 128\); lower it, or raise it there \(sysctl -w net\.core\.somaxconn=129\)$",
        ),
        # a level of the study is the application's host's
        ("web.backlog: 129, net.core.somaxconn: 65535", "", r"^roles\.yaml:9: .* kernel of ssh:web takes"),
        ("database.shared_buffers: 255m", "", r"^roles\.yaml:9: database\.shared_buffers: 255m can hang.* is 230m,"),
        ("", "placement: { web_memory: 129m }", r"^roles\.yaml:10: 129m is more than ssh:web has \(128m\)$"),
        (
            "",
            "reset: { page_cache: drop }",
            r":10: the page cache cannot be dropped on ssh:web \(needs root\); write keep$",
        ),
        ("", "reset: { swap: off }", r":10: swap cannot be switched off on ssh:web \(needs root\); write keep$"),
    ],
)
def test_levels_beyond_the_host_of_their_role(settings: str, rest: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_roles(settings, rest)


@pytest.mark.parametrize(
    ("host", "settings", "factor", "words"),
    [
        (
            "web: ssh:front",
            "",
            HEAP,
            r"^roles\.yaml:8: hosts\.web is ssh:front, but no web server is in front; set web\.server: nginx, or leave",
        ),
        (
            "web: ssh:front",
            f"{NGINX}, web.place: absent",
            HEAP,
            r"^roles\.yaml:8: hosts\.web is ssh:front, .*; web\.place is absent in every trial; leave it out, or leave",
        ),
        (
            "web: ssh:front",
            NGINX,
            "web.place: [absent, same, own]",
            r"^roles\.yaml:11: web\.place is same, .* hosts\.web \(roles\.yaml:8\) .*; write own or absent, or leave",
        ),
        (
            "web: ssh:front",
            f"{NGINX}, web.upstream: unix",
            HEAP,
            r"^roles\.yaml:12: no Unix socket reaches another host, .*; write tcp, or leave hosts\.web out",
        ),
        (
            "supplier: ssh:sup",
            "",
            HEAP,
            r"^roles\.yaml:8: hosts\.supplier is ssh:sup, but brokerage has no supplier emulator, dealership has",
        ),
        ("web: front", NGINX, HEAP, r"^roles\.yaml:8: .*'front' is no host over SSH; write ssh:NAME"),
        ("webb: ssh:front", NGINX, HEAP, r"^roles\.yaml:8: .*webb.*did you mean .*web"),
    ],
)
def test_roles_that_do_not_fit(host: str, settings: str, factor: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check(host, settings, factor)
