"""Small archives as Spring Boot and Quarkus build them, with metadata of a few properties."""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

POOL = "spring.datasource.hikari.maximum-pool-size"

METADATA: list[dict[str, object]] = [
    {
        "name": "server.tomcat.threads.max",
        "type": "java.lang.Integer",
        "defaultValue": 200,
        "description": "Most. All.",
    },
    {"name": "server.tomcat.keep-alive-timeout", "type": "java.time.Duration", "defaultValue": "20s"},
    {"name": "server.header-size", "type": "org.springframework.util.unit.DataSize", "defaultValue": "8KB"},
    {
        "name": "server.tomcat.max-threads",
        "deprecation": {"level": "error", "replacement": "server.tomcat.threads.max"},
    },
    {"name": "spring.jpa.open-in-view", "type": "java.lang.Boolean", "defaultValue": True},
    {"name": "spring.jpa.properties", "type": "java.util.Map<java.lang.String,java.lang.String>"},
    {"name": "spring.datasource.hikari.maximum-pool-size", "type": "java.lang.Integer"},
    {"name": "spring.datasource.hikari.pool-name", "type": "java.lang.String"},
]


def library_with(metadata: list[dict[str, object]] | None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        if metadata is not None:
            jar.writestr("META-INF/spring-configuration-metadata.json", json.dumps({"properties": metadata}))
    return buffer.getvalue()


def spring_boot_jar(path: Path, *libraries: str, files: Mapping[str, str] | None = None) -> Path:
    """A fat jar that brings libraries, and files below BOOT-INF/classes."""
    with zipfile.ZipFile(path, "w") as jar:
        lines = ["Manifest-Version: 1.0", "Main-Class: org.springframework.boot.loader.launch.JarLauncher"]
        lines += ["Start-Class: com.example.a.very.long.package.name.that.goes.on.in.the", " .next.line.Shop"]
        jar.writestr("META-INF/MANIFEST.MF", "\r\n".join([*lines, "Spring-Boot-Version: 3.5.7", ""]))
        for library in libraries:
            metadata = METADATA if library.startswith("spring-boot") else None
            jar.writestr(f"BOOT-INF/lib/{library}.jar", library_with(metadata))
        for name, text in (files or {}).items():
            jar.writestr(f"BOOT-INF/classes/{name}", text)
    return path


QUARKUS_ITEM = {"phase": "RUN_TIME", "sourceType": "Config", "sourceElementName": "maxSize"}


def quarkus_app(folder: Path, *libraries: str, files: Mapping[str, str] | None = None) -> Path:
    """A fast-jar with one extension's configuration model, other libraries, and files of its own."""
    (folder / "lib" / "main").mkdir(parents=True)
    items = [
        {**QUARKUS_ITEM, "type": "int", "defaultValue": "20", "path": {"property": "quarkus.datasource.jdbc.max-size"}},
        {**QUARKUS_ITEM, "type": "java.time.Duration", "defaultValue": "5S", "path": {"property": "quarkus.http.wait"}},
        {"phase": "BUILD_AND_RUN_TIME_FIXED", "type": "boolean", "path": {"property": "quarkus.http.compress"}},
        {**QUARKUS_ITEM, "type": "int", "path": {"property": 'quarkus.pool."name".size'}},
    ]
    with zipfile.ZipFile(folder / "lib" / "main" / "http.jar", "w") as jar:
        section = {"items": [{"items": items[:1]}, *items[1:]]}
        jar.writestr("META-INF/quarkus-config-doc/quarkus-config-model.json", json.dumps({"configRoots": [section]}))
        words = {"elements": {"Config.maxSize": {"description": "The <b>size</b>. More."}}}
        jar.writestr("META-INF/quarkus-config-doc/quarkus-config-javadoc.json", json.dumps(words))
    with zipfile.ZipFile(folder / "quarkus-run.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Main-Class: io.quarkus.bootstrap.runner.QuarkusEntryPoint\n")
    for library in libraries:
        (folder / "lib" / "main" / f"io.quarkus.{library}.jar").write_bytes(library_with(None))
    if files:
        (folder / "app").mkdir()
        with zipfile.ZipFile(folder / "app" / "shop.jar", "w") as jar:
            for name, text in files.items():
                jar.writestr(name, text)
    return folder / "quarkus-run.jar"
