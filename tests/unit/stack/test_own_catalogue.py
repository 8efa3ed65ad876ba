"""Properties of an application of one's own as knobs, from the metadata that its framework brings."""

import zipfile
from pathlib import Path

import pytest
from toy_archives import POOL, quarkus_app, spring_boot_jar

from leadline.checks.files.stack import read_stack
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost
from leadline.places.running import choice_of
from leadline.stack.base import DataSource, Deployment, ServiceContext
from leadline.stack.own import quarkus, spring
from leadline.stack.registry import not_a_knob, server_of, stack_catalogue


def test_properties_of_a_spring_boot_jar_are_knobs(tmp_path: Path) -> None:
    known = spring.catalogue(spring_boot_jar(tmp_path / "shop.jar", "spring-boot-3.5.7"))
    threads, pool = known.knobs["app.server.tomcat.threads.max"], known.knobs[f"app.{POOL}"]
    assert (threads.default, threads.summary, threads.apply_cost) == (200, "Most", ApplyCost.LIVE)
    assert (pool.default, pool.apply_cost) == (10, ApplyCost.LIVE)
    size = known.knobs["app.server.header-size"]
    keep = known.knobs["app.server.tomcat.keep-alive-timeout"]
    assert (size.default, keep.default) == (8192, 20)
    assert spring.value(size, 16 << 10) == "16384B"
    assert spring.value(keep, 2.5) == "2500000us"
    assert spring.value(known.knobs["app.spring.jpa.open-in-view"], False) == "false"
    assert (spring.level_of(keep, 2.5), spring.level_of(size, 16384), spring.level_of(pool, 7)) == (2.5, 16384, 7)
    with pytest.raises(LookupError, match="has no value"):
        spring.level_of(pool, None)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (f"{POOL}e", f"there is no property '{POOL}e'; did you mean {POOL}?"),
        ("server.tomcat.max-threads", "server.tomcat.max-threads was removed; write server.tomcat.threads.max"),
        ("server.tomcat.maxThreads", "server.tomcat.max-threads was removed; write server.tomcat.threads.max"),
        ("spring.datasource.hikari.maximumPoolSize", ""),
        ("spring.jpa.properties.hibernate.jdbc.batch_size", ""),
        ("shop.packing", ""),
    ],
)
def test_properties_without_an_effect_are_told_of(tmp_path: Path, name: str, told: str) -> None:
    assert spring.catalogue(spring_boot_jar(tmp_path / "shop.jar", "spring-boot-3.5.7")).misspelt(name) == told


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("SPRING_DATASOURCE_HIKARI_MAXIMUMPOOLSIZEE", f"did you mean that of {POOL}?"),
        ("SPRING_DATASOURCE_HIKARI_MAXIMUM_POOL_SIZE", ""),
        ("SPRING_DATASOURCE_URL", ""),
        ("SERVER_TOMCAT_MAX_THREADS", "server.tomcat.max-threads was removed; write server.tomcat.threads.max"),
        ("SERVER_NAME", ""),
        ("SHOP_PACKING", ""),
    ],
)
def test_variables_without_an_effect_are_told_of(tmp_path: Path, variable: str, told: str) -> None:
    known = spring.catalogue(spring_boot_jar(tmp_path / "shop.jar", "spring-boot-3.5.7"))
    found = known.misspelt_variable(variable)
    assert found.endswith(told)
    assert bool(found) == bool(told)


def test_the_other_framework_s_catalogue_is_named(tmp_path: Path) -> None:
    spring_boot_jar(tmp_path / "shop.jar", "spring-boot-3.5.7")
    path = tmp_path / "shop.stack.yaml"
    path.write_text('stack: shop\ncommand: [java, -jar, shop.jar, "--server.port=${port}"]\ncatalogue: quarkus\n')
    with pytest.raises(UsageError, match=r"shop\.stack\.yaml:3: .*write `catalogue: spring-boot`"):
        read_stack(path)


def test_a_study_on_properties_is_checked_against_the_jar(tmp_path: Path) -> None:
    jar = spring_boot_jar(tmp_path / "shop.jar", "spring-boot-3.5.7")
    words = 'command: [java, -jar, shop.jar, "--server.port=${port}"{}]'
    text = f"stack: shop\n{words}\ncatalogue: spring-boot\n"
    path = tmp_path / "shop.stack.yaml"
    path.write_text(text.replace("{}", f", --{POOL}s=3"))
    with pytest.raises(UsageError, match=f"shop.stack.yaml:2: there is no property '{POOL}s'; did you mean {POOL}"):
        read_stack(path)
    path.write_text(text.replace("{}", ""))
    choice = choice_of(str(path))
    assert f"app.{POOL}" in {knob.name for knob in stack_catalogue(choice)}
    assert not_a_knob(choice, "app.server.tomcat.max-threads").endswith("was removed; write server.tomcat.threads.max")
    server, host = server_of(choice), LocalHost(state=tmp_path / "state")
    shop = Deployment("shop", jar, "/", DataSource("jdbc/shop"))
    context = ServiceContext(host, tmp_path / "own", tmp_path / "logs", http_port=99, observe=False, deployment=shop)
    server.configure(context, {f"app.{POOL}": 3, "jvm.heap": 64 << 20})
    command, _ = server.command(context)
    assert command[-1] == f"--{POOL}=3"
    assert "-Xmx67108864" in command[: command.index("-jar")]
    assert command[command.index("-jar") + 1] == str(jar)


def test_properties_of_a_quarkus_application_are_knobs(tmp_path: Path) -> None:
    known = quarkus.catalogue(quarkus_app(tmp_path))
    pool, wait = known.knobs["app.quarkus.datasource.jdbc.max-size"], known.knobs["app.quarkus.http.wait"]
    assert (pool.default, pool.apply_cost, pool.summary) == (20, ApplyCost.LIVE, "The size")
    assert (wait.default, wait.apply_cost) == (5, ApplyCost.RESTART)
    assert (quarkus.value(pool, 7), quarkus.value(wait, 0.25)) == ("7", "250ms")
    assert (quarkus.level_of(pool, 7), quarkus.level_of(wait, 2.5), quarkus.level_of(wait, "PT1M30S")) == (7, 2.5, 90)
    assert known.misspelt("quarkus.http.compress").startswith("quarkus.http.compress is fixed when the application is")
    assert known.misspelt("quarkus.datasource.jdbc.max-sise").endswith("did you mean quarkus.datasource.jdbc.max-size?")
    assert known.misspelt("quarkus.pool.orders.size") == ""
    with pytest.raises(LookupError, match="soon is no duration"):
        quarkus.level_of(wait, "soon")
    (tmp_path / "lib" / "main" / "http.jar").unlink()
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="it is no fast-jar of Quarkus"):
        quarkus.catalogue(Path((tmp_path / "quarkus-run.jar").rename(tmp_path / "other" / "quarkus-run.jar")))
    (tmp_path / "other" / "lib").mkdir()
    with zipfile.ZipFile(tmp_path / "other" / "lib" / "io.quarkus.quarkus-core-3.1.jar", "w"):
        pass
    with pytest.raises(UsageError, match="its release of Quarkus brings no list of its properties"):
        quarkus.catalogue(tmp_path / "other" / "quarkus-run.jar")


def test_the_catalogue_of_a_start_script_is_that_of_the_jar_it_names(tmp_path: Path) -> None:
    quarkus_app(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "start.sh").touch(mode=0o755)
    path = tmp_path / "script.stack.yaml"
    path.write_text(
        "stack: script\ncommand: [bin/start.sh, --port, '${port}', '${jvm}']\n"
        "artifact: quarkus-run.jar\ncatalogue: quarkus\n"
    )
    names = {knob.name for knob in server_of(choice_of(str(path))).knobs()}
    assert "app.quarkus.datasource.jdbc.max-size" in names


def test_levels_of_quarkus_are_options_of_the_jvm(tmp_path: Path) -> None:
    quarkus_app(tmp_path / "quarkus-app")
    path = tmp_path / "q.stack.yaml"
    command = '[java, "-Dquarkus.http.port=${port}", -jar, quarkus-app/quarkus-run.jar]'
    path.write_text(f"stack: q\ncommand: {command}\ncatalogue: quarkus\n")
    choice = choice_of(str(path))
    assert not_a_knob(choice, "app.quarkus.http.compress").startswith("quarkus.http.compress is fixed")
    server, host = server_of(choice), LocalHost(state=tmp_path / "state")
    shop = Deployment("q", tmp_path / "quarkus-app" / "quarkus-run.jar", "/", DataSource("jdbc/q"))
    context = ServiceContext(host, tmp_path / "own", tmp_path / "logs", http_port=99, observe=False, deployment=shop)
    server.configure(context, {"app.quarkus.http.wait": 0.5})
    words, _ = server.command(context)
    assert "-Dquarkus.http.wait=500ms" in words[: words.index("-jar")]
