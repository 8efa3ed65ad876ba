"""``stack init``: what a first stack file takes from the properties of an application, and says of them."""

from pathlib import Path

import pytest
from toy_archives import quarkus_app, spring_boot_jar

from leadline.checks.files.stack import read_stack
from leadline.experiments.stackfiles import first
from leadline.model.errors import UsageError
from leadline.model.ownstack import OwnStack

WEB = ("spring-boot-3.5.7", "spring-boot-actuator-3.5.7", "spring-jdbc-6.2.12", "h2-2.3.232", "postgresql-42.7.8")


def written(artifact: Path, profile: str | None = None) -> tuple[OwnStack, str]:
    path, text = first(artifact, artifact.parents[1] / "first.stack.yaml", None, profile)
    return read_stack(path).content, text


def spring(tmp_path: Path, files: dict[str, str], profile: str | None = None) -> tuple[OwnStack, str]:
    (tmp_path / "target").mkdir(exist_ok=True)
    return written(spring_boot_jar(tmp_path / "target" / "shop.jar", *WEB, files=files), profile)


YML = """\
server:
  port: 9090
  servlet: { context-path: "${CONTEXT:/shop}" }
management.server.port: 9091
spring.datasource.url: jdbc:h2:mem:shop;MODE=PostgreSQL
---
spring.config.activate.on-profile: prod
server.ssl.key-store: classpath:keys.p12
spring.datasource:
  url: jdbc:postgresql://user:hidden@db/shop?password=hidden
"""


def test_properties_become_keys_and_comments_with_their_place(tmp_path: Path) -> None:
    stack, text = spring(tmp_path, {"application.yml": YML})
    assert (stack.path, stack.database.kind, stack.ready.path) == ("/shop", "none", "/actuator/health")
    assert stack.ready.port == "${port.management}"
    assert "--management.server.port=${port.management}" in stack.words
    assert "# server.port is 9090 (application.yml:2 in shop.jar): ${port}, a free one, in its place" in text
    assert "# server.servlet.context-path is /shop (application.yml:3 in shop.jar): it begins there" in text
    assert "# spring.datasource.url is jdbc:h2:mem:shop (application.yml:5 in shop.jar): in memory" in text
    assert "# Profiles: in force: default; there are also prod: --spring.profiles.active=NAME" in text


def test_a_jar_that_starts_itself_is_a_jar_and_no_script(tmp_path: Path) -> None:
    jar = spring_boot_jar(tmp_path / "shop.jar", *WEB)
    jar.write_bytes(b"#!/bin/bash\n" + jar.read_bytes())
    (tmp_path / "target").mkdir()
    stack, _ = written(jar.rename(tmp_path / "target" / "shop.jar"))
    assert (stack.catalogue, stack.words[:2]) == ("spring-boot", ["java", "-jar"])


def test_a_profile_is_taken_and_hides_passwords(tmp_path: Path) -> None:
    stack, text = spring(tmp_path, {"application.yml": YML}, "prod")
    assert "--spring.profiles.active=prod" in stack.words
    assert "--server.ssl.enabled=false" in stack.words
    assert "# server.ssl.key-store is classpath:keys.p12 (application.yml:8 in shop.jar): TLS is off here" in text
    assert (stack.database.kind, stack.environment["SPRING_DATASOURCE_URL"]) == ("postgres", "${database.jdbc}")
    assert "# spring.datasource.url is jdbc:postgresql://db/shop (application.yml:10 in shop.jar)" in text
    assert "hidden" not in text


def test_a_file_of_a_profile_and_one_beside_the_jar_override(tmp_path: Path) -> None:
    (tmp_path / "target" / "config").mkdir(parents=True)
    (tmp_path / "target" / "config" / "application-prod.properties").write_text("server.servlet.context-path=/beside\n")
    files = {
        "application.properties": "spring.profiles.active=prod\nserver.servlet.contextPath = /plain\n",
        "application-prod.yaml": "server.servlet.context-path: /prod\nserver.port: 81\n",
    }
    stack, text = spring(tmp_path, files)
    assert stack.path == "/beside"
    assert "(application-prod.properties:1 in config/): it begins there" in text
    assert "# server.port is 81 (application-prod.yaml:2 in shop.jar)" in text
    assert stack.words[-1] == "--spring.config.additional-location=optional:file:${folder}/target/config/"


@pytest.mark.parametrize(
    ("url", "kind", "comment"),
    [
        ("", "none", "no URL is named and h2 is in the jar: in memory, made at every start"),
        ("jdbc:h2:./shop", "none", "in its directory, a fresh one at every start"),
        ("jdbc:h2:file:/var/shop", "keep", "its data are never put back; a `reset` command would"),
        ("jdbc:h2:~/shop", "keep", "its data are never put back"),
        ("jdbc:sqlite::memory:", "none", "in memory"),
        ("jdbc:mysql://${HOST:db}/shop", "mariadb", "is jdbc:mysql://db/shop ("),
        ("jdbc:oracle:thin:@db:1521/shop", "keep", "its data are never put back"),
    ],
)
def test_a_data_source_leads_to_the_database_key(tmp_path: Path, url: str, kind: str, comment: str) -> None:
    stack, text = spring(tmp_path, {"application.properties": f"spring.datasource.url={url}\n"})
    assert stack.database.kind == kind
    assert comment in text
    if kind == "mariadb":
        assert stack.environment["SPRING_DATASOURCE_URL"].startswith("jdbc:mysql://${database.host}:")


def test_names_without_an_effect_and_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    files = {
        "application.properties": "# one\nserver.tomcat.max-threads=9\nspring.jpa.open-in-veiw: true\nshop.size 3\n",
        "application-bad.yml": "server: [\n",
        "application-large.yml": "a: 1\n" * 20_000,
    }
    with pytest.raises(UsageError, match="--profile 'a b': no name"):
        spring(tmp_path, files, "a b")
    stack, text = spring(tmp_path, {name: files[name] for name in list(files)[:2]})
    where = "in shop.jar): "
    assert f"# without an effect: server.tomcat.max-threads (application.properties:2 {where}server.tomcat.max" in text
    assert f"spring.jpa.open-in-veiw (application.properties:3 {where}there is no property" in text
    assert "shop.size" not in text
    assert "# application-bad.yml:2: " in text
    assert stack.path == "/"
    (tmp_path / "first.stack.yaml").unlink()
    assert "more than 65,536 bytes: nothing of it is read" in spring(tmp_path, files)[1]


def test_what_properties_say_cannot_write_lines_of_the_stack_file(tmp_path: Path) -> None:
    hostile = "server.port=1\\u000aaudits: []\nserver.servlet.context-path=/a\\u0022\\u000amine: true\n"
    stack, text = spring(tmp_path, {"application.properties": hostile})
    assert (stack.path, stack.mine) == ("/", None)
    assert "\naudits:" not in text


def test_a_context_of_several_names_stands_before_the_probe(tmp_path: Path) -> None:
    stack, text = spring(tmp_path, {"application.properties": "server.servlet.context-path=/api/v1\n"})
    assert (stack.path, stack.ready.path) == ("/", "/api/v1/actuator/health")
    assert "begin the paths of a scenario with it" in text


@pytest.mark.parametrize("quarkus", [True, False])
def test_an_application_without_a_health_page_is_up_once_it_listens(quarkus: bool, tmp_path: Path) -> None:
    """No application need answer / with 200: many are a REST interface alone."""
    (tmp_path / "target").mkdir()
    boot = "spring-boot-3.5.7"
    stack, text = written(
        quarkus_app(tmp_path / "target" / "app", "quarkus-rest-3.8.1")
        if quarkus
        else spring_boot_jar(tmp_path / "target" / "app.jar", boot, files={"application.yml": "server.port: 1"})
    )
    assert (stack.ready.tcp, stack.ready.status) == ("${port}", 200)
    assert "listens once it is up" in text


QUARKUS = """\
%prod.quarkus.http.root-path=/shop
quarkus.http.root-path=/plain
%dev.quarkus.http.port=1
quarkus.http.compress=true
quarkus.datasource.jdbc.max-sise=3
quarkus.datasource.db-kind=h2
quarkus.management.enabled=true
%{prod,test}.quarkus.datasource.jdbc.url=jdbc:h2:mem:shop
"""


def test_properties_of_quarkus_are_read_by_their_profile(tmp_path: Path) -> None:
    jar = quarkus_app(
        tmp_path / "shop" / "target" / "quarkus-app",
        "quarkus-jdbc-h2-3.8.1",
        "quarkus-smallrye-health-3.8.1",
        files={"application.properties": QUARKUS},
    )
    stack, text = written(jar)
    assert (stack.path, stack.ready.path, stack.ready.port) == ("/shop", "/q/health/ready", "${port.management}")
    assert stack.database.kind == "none"
    assert "(application.properties:1 in shop.jar): it begins there" in text
    assert "# Profiles: in force: prod; there are also dev, test: -Dquarkus.profile=NAME" in text
    assert "quarkus.http.port is" not in text
    assert "# without an effect: quarkus.datasource.jdbc.max-sise (application.properties:5 in shop.jar)" in text
    assert "quarkus.http.compress" not in text, "what is fixed when it is built belongs into this file"
    Path(jar.parents[1] / "first.stack.yaml").unlink()
    (jar.parent / "config").mkdir()
    (jar.parent / "config" / "application.properties").write_text("%dev.quarkus.http.root-path=/dev\n")
    stack, _ = written(jar, "dev")
    assert stack.path == "/dev"
    assert "-Dquarkus.profile=dev" in stack.words
    locations = "-Dquarkus.config.locations=${folder}/quarkus-app/config/application.properties"
    assert locations in stack.words
