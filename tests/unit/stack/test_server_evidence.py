"""What is picked out of the logs of servers that failed to start."""

from __future__ import annotations

import pytest

from leadline.stack.servers import evidence

LIBERTY_PORT = """\
[AUDIT   ] CWWKE0001I: The server leadline has been launched.
[ERROR   ] CWWKO0221E: TCP Channel defaultHttpEndpoint initialization did not succeed. The port might already be in use.
[AUDIT   ] CWWKZ0001I: Application brokerage started in 0.585 seconds.
"""
TOMCAT_PORT = """\
21-Nov-2026 12:04:12.015 SEVERE [main] org.apache.catalina.startup.Bootstrap.main Error running command
\tjava.lang.Error: org.apache.catalina.LifecycleException: Protocol handler initialization failed
\tCaused by: java.net.BindException: Address already in use
"""
SPRING_PORT = """\
2026-11-26T14:45:00.001+00:00 ERROR 4242 --- [main] o.s.b.d.LoggingFailureAnalysisReporter :

***************************
APPLICATION FAILED TO START
***************************

Description:

Web server failed to start. Port 15701 was already in use.
"""
QUARKUS_PORT = (
    "2026-11-26 15:10:45,984 ERROR [io.qua.run.Application] (main) Port 51371 seems to be in use by another process."
)
MEMORY = """\
#
# There is insufficient memory for the Java Runtime Environment to continue.
# Native memory allocation (mmap) failed to map 70368744177664 bytes. Error detail: committing reserved memory.
"""


def test_the_jvms_heading_is_joined_with_the_reason_below_it() -> None:
    found = evidence.gather("Error occurred during initialization of VM\nToo small maximum heap\n")
    assert found.headline == "Error occurred during initialization of VM: Too small maximum heap"
    assert len(found.errors) == 1
    memory = evidence.gather(MEMORY)
    assert memory.headline.startswith(
        "There is insufficient memory for the Java Runtime Environment to continue: Native"
    )


def test_the_last_line_may_be_a_heading() -> None:
    assert evidence.gather("Error occurred during initialization of VM").headline.endswith("of VM")


@pytest.mark.parametrize("log", [LIBERTY_PORT, TOMCAT_PORT, SPRING_PORT, QUARKUS_PORT])
def test_a_taken_port_is_seen(log: str) -> None:
    assert evidence.gather(log).port_taken


def test_a_healthy_log_has_no_errors() -> None:
    log = "[AUDIT   ] CWWKF0011I: The server is ready\n21-Nov-2026 INFO [main] Server startup in [503] milliseconds\n"
    found = evidence.gather(log)
    assert found.errors == []
    assert found.headline == ""
    assert not found.port_taken
    assert found.text() == log.rstrip("\n")


def test_errors_come_first_and_once() -> None:
    line = "[ERROR   ] CWWKZ0002E: An exception occurred while starting the application brokerage."
    found = evidence.gather(f"{line}\n{line}\n[AUDIT   ] CWWKZ0012I: The application brokerage was not started.\n")
    assert found.errors == [line, "[AUDIT   ] CWWKZ0012I: The application brokerage was not started."]
    assert found.text().startswith(line)


def test_an_empty_log_is_no_evidence() -> None:
    assert evidence.gather("").text() == ""


def test_wildflys_errors_are_found_by_their_level() -> None:
    log = """\
2026-11-21 20:49:49,639 INFO  [org.jboss.as] (MSC service thread 1-2) WFLYSRV0049: WildFly 39.0.1.Final starting
2026-11-21 20:49:58,778 WARN  [org.wildfly.extension.elytron] (MSC service thread 1-5) WFLYELY00023: Used blank.
2026-11-21 20:50:12,860 ERROR [leadline.brokerage.web.Startup] (ServerService 85) brokerage does not start: no mode
"""
    (error,) = evidence.gather(log).errors
    assert error.endswith("brokerage does not start: no mode")
