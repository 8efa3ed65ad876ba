"""Draws the pictures of docs/guides/gallery.md from simulated studies: ``python tools/gallery.py``.

Each picture is a figure of the report. Its truth is made up, so the picture says SIMULATED.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import leadline

IMAGES = Path(__file__).parents[1] / "docs" / "images" / "gallery"
POOL, CACHE = "server.datasource.max_connections", "server.datasource.statement_cache"
HUGE = "mm.transparent_hugepage.enabled"
# picture: factors, response, what each level truly does in percent
PICTURES: dict[str, tuple[dict[str, list[Any]], str, list[tuple[str, Any, dict[str, str]]]]] = {
    "heap": (
        {"jvm.heap": ["256m", "128m", "512m", "1g"]},
        "p99",
        [
            ("jvm.heap", "128m", {"p99": "60%"}),
            ("jvm.heap", "512m", {"p99": "-18%"}),
            ("jvm.heap", "1g", {"p99": "-20%"}),
        ],
    ),
    "collector": (
        {"jvm.collector": ["g1", "parallel", "zgc"]},
        "p99",
        [("jvm.collector", "zgc", {"p99": "-30%"}), ("jvm.collector", "parallel", {"p99": "25%"})],
    ),
    "pool": ({POOL: [10, 5, 20, 40]}, "throughput", [(POOL, 5, {"throughput": "-9%"})]),
    "pull-request": ({CACHE: [60, 20]}, "p99", [(CACHE, 20, {"p99": "12%"})]),
    "huge-pages": ({HUGE: ["never", "always"]}, "throughput", [(HUGE, "always", {"throughput": "4%"})]),
    "three-percent": ({"same.a": ["x", "y"], "same.b": ["x", "y"], "same.c": ["x", "y"]}, "throughput", []),
    "cpu": (
        {CACHE: [60, 0], POOL: [10, 20]},
        "cpu_per_transaction",
        [(CACHE, 0, {"cpu_per_transaction": "26%"})],
    ),
    "server": (
        {"stack.server": ["tomcat", "liberty", "wildfly"]},
        "p99",
        [("stack.server", "liberty", {"p99": "25%"}), ("stack.server", "wildfly", {"p99": "35%"})],
    ),
}


def draw(name: str, place: Path) -> None:
    factors, response, effects = PICTURES[name]
    truth = place / f"{name}.yaml"
    rows = [
        f"{{ when: {{ {knob}: {level} }}, percent: {percent} }}".replace("'", "") for knob, level, percent in effects
    ]
    truth.write_text(
        "truth: { seed: 5, noise: { trials: 1%, latency_trials: 3%, cpu_trials: 2% }, "
        f"effects: [{', '.join(rows)}] }}\n"
    )
    kind = "pseudo_factors" if name == "three-percent" else "factors"
    study = leadline.Study.of(
        {
            "study": name,
            "question": name,
            kind: factors,
            "workload": {"users": 20, "ramp_up": "2s", "steady": "20s", "ramp_down": "1s"},
            "responses": [response],
            "design": {"replicates": 6},
        }
    )
    result = leadline.run(study, place / "lab", truth=truth).result
    result.export(place / name, {"svg"})
    IMAGES.mkdir(parents=True, exist_ok=True)
    shutil.copy(place / name / f"effects-{response}.svg", IMAGES / f"{name}.svg")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for picture in PICTURES:
            draw(picture, Path(folder))
