"""What a study cannot have whose roles have hosts of their own, refused before a host is asked."""

from __future__ import annotations

import pytest

from leadline.host.local import LocalHost
from leadline.lab.overssh import check_over_ssh
from leadline.lab.planning import plan_study
from leadline.lab.studyfile import parse_study
from leadline.model.errors import UsageError
from leadline.stack.registry import service_catalogue

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
