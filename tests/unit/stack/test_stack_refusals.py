"""Refused connections are found in the server's logs, whichever file has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leadline.model.errors import FailureClass, TrialFailure
from leadline.stack.jdbc import JdbcDriver
from leadline.stack.mariadb import MariaDb
from leadline.stack.postgres import Postgres
from leadline.stack.refusals import check, check_store


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
