"""The pages: what runs, two runs against each other, one study over time, and the reports of studies."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

import leadline
from leadline.api.comparing import compare_runs, history_document, history_of
from leadline.api.watching import stylesheet
from leadline.web.watch import Watch

_ASSETS = {
    "ui.css": "text/css",
    "live.js": "text/javascript",
    "chart.js": "text/javascript",
    "history.js": "text/javascript",
}


class Pages:
    """Makes pages as text. ``form`` proves that a request comes from one of them."""

    def __init__(self, watch: Watch, form: str) -> None:
        self._watch, self._form = watch, form
        self._lock = threading.Lock()
        self._reports: dict[str, tuple[tuple[int, ...], str]] = {}
        self._environment = Environment(
            loader=PackageLoader("leadline.web", "templates"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters["day"] = lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
        folder = resources.files("leadline.web").joinpath("templates")
        texts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in _ASSETS}
        texts["ui.css"] = stylesheet() + texts["ui.css"]
        self.assets = {name: (kind, texts[name]) for name, kind in _ASSETS.items()}

    def home(self) -> str:
        return self._render("home.html.j2", lab=str(self._watch.directory.absolute()))

    def compare(self, first: str, second: str) -> str:
        """Two studies by ``lab/number``. Raises UsageError for what cannot be compared."""
        left_study, other = self._watch.study(first), self._watch.study(second)
        return self._render(
            "compare.html.j2",
            found=compare_runs(left_study, other),
            simulated=left_study.record.simulated or other.record.simulated,
        )

    def history(self, params: Mapping[str, str]) -> str:
        """A study over time: ``lab``, ``study``, and if wanted ``response`` and ``level``. Raises UsageError."""
        lab, study = params.get("lab", "real"), params.get("study", "")
        level = params.get("level", "")
        runs_of_lab = [run for name, run in reversed(self._watch.studies()) if name == lab]
        history = history_of([self._watch.lab(lab)], study, params.get("response") or None, level, runs_of_lab)
        runs = [run for run in runs_of_lab if run.record.study.study == study]
        responses = list(dict.fromkeys(name for run in runs for name in run.record.study.responses))
        levels = list(dict.fromkeys(str(comparison) for run in runs for comparison in run.record.plan.comparisons))
        data = {**history_document(history), "lab": lab}
        return self._render(
            "history.html.j2",
            found=history,
            lab=lab,
            level=level,
            responses=responses,
            levels=levels,
            data=_json(data),
            simulated=any(run.record.simulated for run in runs),
        )

    def report(self, key: str) -> str:
        """The report of a study, made anew when it has gone on. Raises UsageError."""
        result = self._watch.study(key)
        state = tuple(trial.attempt + 100 * (trial.ended is not None) for trial in result.record.trials)
        with self._lock:  # one at a time: each takes seconds and memory
            if key not in self._reports or self._reports[key][0] != state:
                with tempfile.TemporaryDirectory() as folder:
                    path = result.report(Path(folder) / "report.html")
                    self._reports = {key: (state, path.read_text(encoding="utf-8"))}
            return self._reports[key][1]

    def _render(self, name: str, *, simulated: bool = False, **content: Any) -> str:
        shared = {"version": leadline.__version__, "form": self._form, "simulated": simulated}
        return self._environment.get_template(name).render(**shared, **content)


def _json(document: Any) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(document, ensure_ascii=False, default=str)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
