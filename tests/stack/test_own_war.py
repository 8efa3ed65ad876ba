"""A WAR of one's own over a configuration of one's own: levels over it are in force, data are the same at every start,
and nothing of the user's files is written. Open Liberty and Tomcat; the others with LEADLINE_MATRIX=1.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import listeners
import pytest
from conftest import leadline
from own_examples import EXAMPLES, built
from witnesses import matrix

from leadline.host.local import LocalHost
from leadline.model.knob import Level
from leadline.places.running import choice_of
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions
from leadline.stack.own.application import fetched
from leadline.stack.provision import GLASSFISH, TOMCAT, WILDFLY, fetch

pytestmark = pytest.mark.stack

QUOTES = EXAMPLES / "quotes"
POOL = '<Resource name="jdbc/quotes" type="javax.sql.DataSource" driverClassName="org.postgresql.Driver" maxTotal="9" '
COMMON = {"server.threads.max": 40, "server.http.max_connections": 500, "server.http.keep_alive_timeout": 20.0}
OF_POOL = {"server.datasource.max_connections": 3, "server.datasource.statement_cache": 5}


@pytest.fixture(scope="module")
def war() -> Path:
    return built(QUOTES, "quotes.war")


def tomcat(war: Path, base: Path) -> str:
    """A CATALINA_BASE of one's own: pool in its server.xml, the driver in its lib."""
    from leadline.stack.provision import DRIVERS

    shutil.copytree(fetch(TOMCAT, print) / f"apache-tomcat-{TOMCAT.version}" / "conf", base / "conf")
    login = 'url="${db.url}" username="${db.user}" password="${db.password}"/>'
    put(base / "conf" / "server.xml", "<GlobalNamingResources>", f"<GlobalNamingResources>{POOL}{login}")
    link = '<ResourceLink name="jdbc/quotes" global="jdbc/quotes" type="javax.sql.DataSource"/>'
    put(base / "conf" / "context.xml", "</Context>", f"{link}</Context>")
    (base / "lib").mkdir()
    shutil.copy(DRIVERS["postgresql"].jar(), base / "lib")
    return f"""\
stack: quotes
war: {war}
server: tomcat
server_config: {base}
ready: {{ path: "/quote?id=1", says: {{ id: 1 }} }}
database: postgres
properties:
  quotes.source: java:comp/env/jdbc/quotes
  db.url: "${{database.jdbc}}"
  db.user: "${{database.user}}"
  db.password: "${{database.password}}"
audits:
  - {{ name: trades-are-counts, sql: "select count(*) from trade", equals: "${{counts.trade.ok}}" }}
"""


def wildfly(war: Path, base: Path) -> str:
    """A base directory of one's own whose pool is an embedded database in its data directory."""
    home = fetch(WILDFLY, print) / f"wildfly-{WILDFLY.version}"
    (base / "configuration").mkdir(parents=True)
    for file in [home / "standalone/configuration/standalone.xml", *home.glob("standalone/configuration/*.properties")]:
        shutil.copy(file, base / "configuration")
    file = base / "configuration" / "standalone.xml"
    put(file, 'jndi-name="java:jboss/datasources/ExampleDS" pool-name="ExampleDS"', 'jndi-name="java:/jdbc/quotes" '
        'pool-name="QuotesSource"')  # fmt: skip
    put(file, "jdbc:h2:mem:test;", "jdbc:h2:file:${jboss.server.data.dir}/quotes/quotes;")
    put(file, 'datasource="java:jboss/datasources/ExampleDS"', 'datasource="java:/jdbc/quotes"')
    return f"""\
stack: quotes
war: {war}
server: wildfly
server_config: {base}
ready: {{ path: "/quote?id=1", says: {{ id: 1, trades: 0 }} }}
properties: {{ quotes.source: "java:/jdbc/quotes" }}
"""


def glassfish(war: Path, base: Path) -> str:
    """A domain of one's own: pool and options of the JVM in its domain.xml, the driver in its lib."""
    from leadline.stack.provision import DRIVERS

    shutil.copytree(fetch(GLASSFISH, print) / "glassfish7" / "glassfish" / "domains" / "domain1", base)
    shutil.copy(DRIVERS["postgresql"].jar(), base / "lib")
    login = {"URL": "${db.url}", "user": "${db.user}", "password": "${db.password}"}
    properties = "".join(f'<property name="{name}" value="{value}"/>' for name, value in login.items())
    pool = 'name="QuotesPool" res-type="java.sql.Driver" driver-classname="org.postgresql.Driver" max-pool-size="9"'
    source = '<jdbc-resource pool-name="QuotesPool" jndi-name="jdbc/quotes"/>'
    put(base / "config" / "domain.xml", "<resources>", f"<resources>{source}<jdbc-connection-pool {pool}>{properties}"
        "</jdbc-connection-pool>")  # fmt: skip
    put(base / "config" / "domain.xml", 'config-ref="server-config">', 'config-ref="server-config"><resource-ref '
        'ref="jdbc/quotes"/>')  # fmt: skip
    return f"""\
stack: quotes
war: {war}
server: glassfish
server_config: {base}
ready: {{ path: "/quote?id=1", says: {{ id: 1 }} }}
database: postgres
properties:
  db.url: "${{database.jdbc}}"
  db.user: "${{database.user}}"
  db.password: "${{database.password}}"
"""


def templated(war: Path, base: Path) -> str:
    """Leadline's domain with its pool."""
    del base
    return f"""\
stack: quotes
war: {war}
server: glassfish
context_root: /mine
ready: {{ path: "/quote?id=1", says: {{ id: 1 }} }}
database: postgres
"""


def shipped(server: str) -> Callable[[Path, Path], str]:
    """The configuration that a server comes with, without a pool."""

    def written(war: Path, base: Path) -> str:
        del base
        return f"""\
stack: quotes
war: {war}
server: {server}
ready: {{ path: "/quote?id=1", says: {{ id: 1 }} }}
properties: {{ quotes.source: "" }}
"""

    return written


def liberty(war: Path, base: Path) -> str:
    """The example's."""
    del war, base
    return (QUOTES / "quotes.stack.yaml").read_text().replace(": target/", f": {QUOTES}/target/").replace(
        ": src/", f": {QUOTES}/src/"
    ).replace("scenario: quotes", f"scenario: {QUOTES}/quotes")  # fmt: skip


OWN_KNOB: Mapping[str, Level] = {"app.work": 0.005, "server.http.max_keep_alive_requests": 50}
OTHER = matrix("another server or its own configuration")


@pytest.mark.parametrize(
    ("make", "levels"),
    [
        pytest.param(liberty, {**COMMON, **OF_POOL, **OWN_KNOB}, id="liberty"),
        pytest.param(tomcat, {**COMMON, **OF_POOL, "server.http.compression": True}, id="tomcat"),
        pytest.param(wildfly, {**COMMON, **OF_POOL}, id="wildfly", marks=OTHER),
        pytest.param(glassfish, {**COMMON, **OF_POOL, "server.http.compression": True}, id="glassfish", marks=OTHER),
        pytest.param(templated, {**COMMON, **OF_POOL}, id="glassfish-templated", marks=OTHER),
        pytest.param(shipped("glassfish"), COMMON, id="glassfish-shipped", marks=OTHER),
        pytest.param(shipped("liberty"), COMMON, id="liberty-shipped", marks=OTHER),
        pytest.param(shipped("tomcat"), COMMON, id="tomcat-shipped", marks=OTHER),
        pytest.param(shipped("tomee"), COMMON, id="tomee-shipped", marks=OTHER),
    ],
)
def test_levels_go_over_a_configuration_of_ones_own(
    make: Callable[[Path, Path], str], levels: Mapping[str, Level], war: Path, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    (tmp_path / "quotes.stack.yaml").write_text(make(war, base))
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    stack = Stack(
        choice_of(str(tmp_path / "quotes.stack.yaml")),
        LocalHost(state=tmp_path / "state"),
        tmp_path / "home",
        StackOptions(ready_timeout=240.0),
    )
    stack.provision(print)
    stack.prepare_data(print)
    stack.reset_data(tmp_path / "trial")
    try:
        stack.up(levels, tmp_path / "trial")
        assert {name: stack.read_back(name) for name in levels} == levels
        assert listeners.beyond_the_loopback(stack) == []
        assert '"trades":0' in fetched(stack.url(), "/quote?id=4")[1]
    finally:
        assert stack.down() == []
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before


def test_a_first_stack_file_is_written_from_the_war(war: Path, tmp_path: Path) -> None:
    done = leadline("stack", "init", str(war), "--server", "liberty", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "quotes.stack.yaml").read_text()
    assert f"war: {war}\nserver: liberty\ncontext_root: /quotes\n" in text


def put(file: Path, old: str, new: str) -> None:
    """Replace a text that is there."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
