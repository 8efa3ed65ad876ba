"""What is picked out of the logs of servers that failed to start."""

import os
import re
import socket
from pathlib import Path

import pytest

from leadline.host.files import listens
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure
from leadline.stack import started
from leadline.stack.assembly import check, check_store
from leadline.stack.mariadb import MariaDb
from leadline.stack.postgres import Postgres
from leadline.stack.provision import JdbcDriver
from leadline.stack.servers.files import gather_evidence

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
    found = gather_evidence("Error occurred during initialization of VM\nToo small maximum heap\n")
    assert found.headline == "Error occurred during initialization of VM: Too small maximum heap"
    assert len(found.errors) == 1
    memory = gather_evidence(MEMORY)
    assert memory.headline.startswith(
        "There is insufficient memory for the Java Runtime Environment to continue: Native"
    )


def test_the_last_line_may_be_a_heading() -> None:
    assert gather_evidence("Error occurred during initialization of VM").headline.endswith("of VM")


@pytest.mark.parametrize("log", [LIBERTY_PORT, TOMCAT_PORT, SPRING_PORT, QUARKUS_PORT])
def test_a_taken_port_is_seen(log: str) -> None:
    assert gather_evidence(log).port_taken


def test_a_healthy_log_has_no_errors() -> None:
    log = "[AUDIT   ] CWWKF0011I: The server is ready\n21-Nov-2026 INFO [main] Server startup in [503] milliseconds\n"
    found = gather_evidence(log)
    assert found.errors == []
    assert found.headline == ""
    assert not found.port_taken
    assert found.text() == log.rstrip("\n")


def test_errors_come_first_and_once() -> None:
    line = "[ERROR   ] CWWKZ0002E: An exception occurred while starting the application brokerage."
    found = gather_evidence(f"{line}\n{line}\n[AUDIT   ] CWWKZ0012I: The application brokerage was not started.\n")
    assert found.errors == [line, "[AUDIT   ] CWWKZ0012I: The application brokerage was not started."]
    assert found.text().startswith(line)


def test_an_empty_log_is_no_evidence() -> None:
    assert gather_evidence("").text() == ""


def test_wildflys_errors_are_found_by_their_level() -> None:
    log = """\
2026-11-21 20:49:49,639 INFO  [org.jboss.as] (MSC service thread 1-2) WFLYSRV0049: WildFly 39.0.1.Final starting
2026-11-21 20:49:58,778 WARN  [org.wildfly.extension.elytron] (MSC service thread 1-5) WFLYELY00023: Used blank.
2026-11-21 20:50:12,860 ERROR [leadline.brokerage.web.Startup] (ServerService 85) brokerage does not start: no mode
"""
    (error,) = gather_evidence(log).errors
    assert error.endswith("brokerage does not start: no mode")


@pytest.mark.parametrize(
    ("driver", "line", "said"),
    [
        (MariaDb.jdbc_driver, "Caused by: java.sql.SQLException: Too many connections", "Too many connections"),
        (Postgres.jdbc_driver, "FATAL: sorry, too many clients already", "sorry, too many clients already"),
    ],
)
def test_the_databases_words_are_the_reason(tmp_path: Path, driver: JdbcDriver, line: str, said: str) -> None:
    folder = tmp_path / "liberty-logs"
    folder.mkdir()
    (folder / "messages.log").write_text(f"fine\n{line}\n{line}\nlater\n")
    (tmp_path / "server.log").write_text("nothing here\n")
    with pytest.raises(TrialFailure, match=f"the database refused connections of the server's pool: {said}") as caught:
        check("the database", "the server", [tmp_path / "server.log", folder], driver.refusals)
    assert caught.value.failure_class is FailureClass.CONFIGURATION
    assert caught.value.evidence == line, "each line once"


def test_quiet_logs_pass_and_evidence_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("Too many open files\n")
    check("d", "s", [log], MariaDb.jdbc_driver.refusals)
    log.write_text("".join(f"{number} Too many connections {'x' * 9000}\n" for number in range(500)))
    with pytest.raises(TrialFailure) as caught:
        check("d", "s", [log], MariaDb.jdbc_driver.refusals)
    assert len(caught.value.evidence) < 5000


def test_a_message_store_that_failed_is_told_in_the_servers_words(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("[WARNING ]  CWSIV0782W: no connection yet\n")
    check_store("liberty", [log])
    said = "CWSIS1592E: The file store has caught an unexpected io exception."
    log.write_text(f"[ERROR   ]  {said}\n" * 2 + "[ERROR   ]  CWSID0034E: Messaging engine cannot be started\n")
    with pytest.raises(TrialFailure, match=f"liberty cannot keep messages: {said}") as caught:
        check_store("liberty", [log])
    assert caught.value.failure_class is FailureClass.CONFIGURATION
    assert caught.value.evidence.splitlines() == [said, "CWSID0034E: Messaging engine cannot be started"]


def test_a_store_that_activemq_gives_up_is_told_with_its_reason(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    reason = "java.io.IOException: No space left on device"
    log.write_text(
        f"""\
00:47:18.430 WARNING [Data File Writer] DataFileAppender.processQueue Journal failed while writing at: 1:3894
\t{reason}
\t\tat java.base/sun.nio.ch.UnixFileDispatcherImpl.write0(Native Method)
00:47:18.441 INFO [vm] stopBroker Stopping BrokerService[brokerage] due to exception, java.io.IOException: Shutdown
"""
    )
    with pytest.raises(
        TrialFailure, match="tomee cannot keep messages: Journal failed while writing at: 1:3894: java"
    ) as caught:
        check_store("tomee", [log])
    assert caught.value.evidence.splitlines() == [
        f"Journal failed while writing at: 1:3894: {reason}",
        "Stopping BrokerService[brokerage] due to exception, java.io.IOException: Shutdown",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "Caused by: com.sun.messaging.BrokerException: Failed to create transaction log file txnlog",
            "Failed to create transaction log file txnlog",
        ),
        (
            "04:41:31.69   SEVERE Thread-1    . [B4004]: Failed to persist message 7-127.0.0.1(9c)-1:",
            "[B4004]: Failed to persist message 7-127.0.0.1(9c)-1:",
        ),
    ],
)
def test_what_open_mq_could_not_keep_is_told(tmp_path: Path, line: str, said: str) -> None:
    log = tmp_path / "server.log"
    log.write_text("04:41:31.69 INFO Thread-1 . [B1002]: An existing property file was not found\n")
    check_store("glassfish", [log])
    log.write_text(f"{line}\njava.io.IOException: No space left on device\n")
    with pytest.raises(TrialFailure, match=f"glassfish cannot keep messages: {re.escape(said)}") as caught:
        check_store("glassfish", [log])
    assert caught.value.evidence == said


def test_a_port_is_taken_while_a_socket_listens_on_it() -> None:
    host = LocalHost()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert host.port_taken(port) == "Address already in use"
        assert listens(host.files, [os.getpid()], port)
        assert not listens(host.files, [os.getppid()], port), "another process answers there"
    assert host.port_taken(port) == ""
    assert not listens(host.files, [os.getpid()], port)


def test_a_log_is_read_from_where_this_start_began(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("SEVERE of an earlier start\nnow\n")
    assert started.text_from(log, len("SEVERE of an earlier start\n")) == "now"
    assert started.text_from(log, 0, most=4) == "now"


def test_a_missing_log_says_nothing(tmp_path: Path) -> None:
    assert started.text_from(tmp_path / "none.log", 0) == ""
