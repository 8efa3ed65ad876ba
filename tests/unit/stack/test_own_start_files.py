"""First stack files for what is not started by java -jar: each is read as a stack file again."""

from pathlib import Path

import pytest
from toy_archives import quarkus_app

from leadline.checks.files.stack import read_stack
from leadline.experiments.stackfiles import first
from leadline.model.errors import UsageError
from leadline.model.ownstack import OwnStack


def written(artifact: Path, server: str | None = None) -> OwnStack:
    """The stack file for an artifact, read as leadline reads it."""
    path, text = first(artifact, artifact.parent / "first.stack.yaml", server)
    assert path.read_text() == text
    return read_stack(path).content


@pytest.mark.parametrize(
    ("line", "variable"),
    [
        ('exec "$JAVA" $JAVA_OPTS $JAVA_OPTS_APPEND -jar app.jar', "JAVA_OPTS_APPEND"),
        ("exec java ${JVM_OPTS:-} -jar app.jar", "JVM_OPTS"),
        ("exec java -jar app.jar", "JDK_JAVA_OPTIONS"),
    ],
)
def test_a_start_script_gets_options_of_its_jvm_by_the_variable_it_reads(
    tmp_path: Path, line: str, variable: str
) -> None:
    script = tmp_path / "shop-1.2" / "bin" / "start.sh"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\n# starts java\n{line}\n")
    script.chmod(0o755)
    path, _ = first(script, tmp_path / "first.stack.yaml")
    stack = read_stack(path).content
    assert (stack.stack, stack.words) == ("shop", ["shop-1.2/bin/start.sh"])
    assert stack.environment == {variable: "${jvm}"}


def test_a_start_script_has_the_catalogue_of_the_jar_beside_it(tmp_path: Path) -> None:
    (tmp_path / "shop" / "bin").mkdir(parents=True)
    (tmp_path / "shop" / "lib").mkdir()
    quarkus_app(tmp_path / "shop" / "lib")
    script = tmp_path / "shop" / "bin" / "start.sh"
    script.write_text("#!/bin/sh\nexec java -jar lib/quarkus-run.jar\n")
    script.chmod(0o755)
    path, _ = first(script, tmp_path / "first.stack.yaml")
    stack = read_stack(path).content
    assert (stack.artifact, stack.catalogue) == ("shop/lib/quarkus-run.jar", "quarkus")


def test_a_script_of_a_program_without_a_jvm_has_no_options(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("#!/bin/sh\nexec ./server\n")
    (tmp_path / "run").chmod(0o755)
    assert written(tmp_path / "run").environment == {}


@pytest.mark.parametrize(
    ("ports", "port", "environment"),
    [
        ('["8081:80"]', 8081, {}),
        ('["127.0.0.1:8081:80"]', 8081, {}),
        ('["127.0.0.1:${HTTP}:80"]', None, {"HTTP": "${port}"}),
        ("[{ published: 8082, target: 80 }]", 8082, {}),
        ("[]", None, {"PORT": "${port}"}),
    ],
)
def test_the_service_that_no_other_needs_is_taken_from_a_compose_file(
    tmp_path: Path, ports: str, port: int | None, environment: dict[str, str]
) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(
        "services:\n  db: { image: postgres }\n  app: { image: shop, depends_on: [db], ports: ['9000:9000'] }\n"
        f"  web: {{ image: nginx, depends_on: {{ app: {{ condition: service_started }} }}, ports: {ports} }}\n"
    )
    stack = written(file)
    assert stack.compose is not None
    assert (stack.compose.service, stack.port, stack.environment) == ("web", port, environment)


def test_a_service_may_be_called_as_yaml_calls_nothing(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: { 'null': { image: shop } }\n")
    stack = written(tmp_path / "compose.yaml")
    assert stack.compose is not None
    assert stack.compose.service == "null"


def test_an_archive_and_a_pool_are_found_in_a_servers_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    (config / "apps").mkdir(parents=True)
    (config / "server.xml").write_text('<server><dataSource id="Trades" jndiName="jdbc/T"/></server>')
    (config / "apps" / "trade.war").touch()
    stack = written(config, "liberty")
    assert (stack.war, stack.server_config, stack.context_root) == ("config/apps/trade.war", "config", "/trade")
    assert stack.data_source == "Trades"
    (config / "server.xml").write_text(
        '<server><dataSource id="T"><properties user="${env.DB_USER}" URL="${env.DB_URL}"/></dataSource>'
        '<webApplication location="trade.war" contextRoot="daytrader"/></server>'
    )
    (tmp_path / "first.stack.yaml").unlink()
    stack = written(config, "liberty")
    assert (stack.context_root, stack.environment) == ("/daytrader", {"DB_URL": "", "DB_USER": ""})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("services: { a: { depends_on: 5 } }", r"services\.a: .* is no service of a compose file"),
        ("services: { a: text }", r"services\.a: 'text' is no service"),
        ('services: { "a: b": {} }', "'a: b' is no name of a service"),
        ("services: {}", "has no `services`"),
        ("services: [", r"compose\.yaml:\d: "),
    ],
)
def test_what_is_no_compose_file_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "compose.yaml").write_text(text)
    with pytest.raises(UsageError, match=message):
        first(tmp_path / "compose.yaml", tmp_path / "out.yaml")


def test_paths_with_what_means_something_to_yaml_are_quoted(tmp_path: Path) -> None:
    script = tmp_path / "a shop, new" / "run #1"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    path, _ = first(script, tmp_path / "first.stack.yaml")
    assert read_stack(path).content.words == ["a shop, new/run #1"]


def test_what_cannot_be_started_is_told(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("version: 3\n")
    (tmp_path / "server.xml").write_text("<server/>")
    (tmp_path / "start").write_text("#!/bin/sh\n")
    for name, server, message in (
        ("compose.yaml", None, "compose.yaml has no `services`, so it is no compose file"),
        ("server.xml", None, "give the directory of the server's configuration, and --server"),
        ("start", "liberty", "start is started as it is: leave --server out"),
        (".", "libertty", "unknown server 'libertty'; did you mean liberty?"),
        (".", "tomcat", "conf/server.xml"),
    ):
        with pytest.raises(UsageError, match=message):
            first(tmp_path / name, tmp_path / "out.yaml", server)
