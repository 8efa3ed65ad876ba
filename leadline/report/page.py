"""Writes the report: one HTML file that needs no network and no script to be read.

Every chart is a static SVG; the page's script replaces it by the interactive one of the same specification. A content
security policy in the page forbids every load and every script but the two the report brings.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from leadline import __version__
from leadline.model.knob import Knob
from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.report import advising, details, latency, view, words
from leadline.report.charts.theme import VEGA_LITE, Figure
from leadline.report.charts.trial import MARGIN, PanelView
from leadline.report.document import plain
from leadline.report.figures.charts import Section, section
from leadline.report.sizes import change_text
from leadline.report.view import View
from leadline.report.words import load_text

SCRIPTS = ("charts.js", "tables.js", "trials.js", "flames.js")  # one after the other they are the page's script

_WHOLE = "\n// the whole bundle\n"  # its last line


def build(
    record: StudyRecord,
    analysis: StudyAnalysis,
    out: Path,
    knobs: Mapping[str, Knob] | None = None,
    kept: Path | None = None,
) -> Path:
    """Write the self-contained page. ``knobs``: what the stack has, for levels that the study did not set.
    ``kept``: a folder for what is the same in every report.

    ``out``: the file, or a directory that gets ``report.html``. Missing or broken files of trials leave their
    panels empty; OSError when ``out`` cannot be written. The file appears whole or not at all.
    """
    return write_page(render(view.gather(record, analysis, knobs=knobs), kept), out)


def write_page(text: str, out: Path) -> Path:
    """Write a page to the file ``out``, or to ``report.html`` in the directory; whole or not at all."""
    target = out / "report.html" if out.is_dir() or not out.suffix else out
    target.parent.mkdir(parents=True, exist_ok=True)
    _replace(target, text)
    return target


def _replace(target: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".report-", suffix=target.suffix)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def render(content: View, kept: Path | None = None) -> str:
    """The page's text."""
    study_a = section(content.record)
    return _rendered(
        "report.html.j2",
        _page_data(content, study_a),
        kept,
        title=content.record.study.study,
        simulated=content.analysis.simulated,
        v=content,
        record=content.record,
        study=content.record.study,
        analysis=content.analysis,
        w=words,
        details=details,
        study_a=study_a,
        latency_all=latency.ALL,
        quantiles=list(latency.QUANTILES),
        load=load_text(content.record.study.workload, content.record.study.factors),
        advice_text=advising,
        sizes=content.sizes,
        change_text=change_text,
        columns=content.columns,
        audits=_audits(content.record),
        knobs=_knobs(content.record),
        fingerprint=hashlib.sha256(content.record.document.encode()).hexdigest(),
    )


def render_page(
    template: str,
    specs: Mapping[str, Any],
    kept: Path | None = None,
    *,
    panels: Sequence[PanelView] = (),
    trials: Mapping[str, Any] | None = None,
    margin: float = MARGIN,
    **content: Any,
) -> str:
    """A page of another template with its figures' specifications, by name, under the same policy. ``panels`` are
    those of its explorer, ``trials`` what it shows in them.
    """
    live = [panel.live for panel in panels if panel.tracks]
    data = {"figures": dict(specs), "panels": live, "trials": trials or {}, "margin": margin}
    return _rendered(template, data, kept, **content)


def _rendered(template: str, data: Mapping[str, Any], kept: Path | None, **content: Any) -> str:
    bundle, script = _bundle(kept), "\n".join(_asset(name) for name in SCRIPTS)
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in (bundle, script))
    text: str = (
        _environment()
        .get_template(template)
        .render(
            policy=f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:",
            version=__version__,
            style=Markup(stylesheet()),
            bundle=Markup(bundle),
            script=Markup(script),
            page_data=_json(data),
            svg=_svg,
            **content,
        )
    )
    return text


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("leadline.report", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = lambda number: f"{number:,}"
    environment.filters["breakable"] = _breakable
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    return environment


def _breakable(name: str) -> Markup:
    """The name of a setting, which may be broken behind its dots and underscores."""
    return Markup(str(escape(name)).replace(".", ".<wbr>").replace("_", "_<wbr>"))


@functools.cache
def _bundle(kept: Path | None) -> str:
    """Vega's script, kept in the folder if there is one: to bundle it takes longer than all of a small report."""
    file = kept and kept / f"vega-{VEGA_LITE}-{importlib.metadata.version('vl-convert-python')}.js"
    with contextlib.suppress(OSError, ValueError):
        if file and (text := file.read_text(encoding="utf-8")).endswith(_WHOLE):
            return text
    text = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    text = text.replace("</script", "<\\/script") + _WHOLE
    with contextlib.suppress(OSError):
        if file:
            _replace(file, text)
    return text


def stylesheet() -> str:
    """Of every page: light, dark, narrow and printed."""
    return _asset("report.css")


def _asset(name: str) -> str:
    return resources.files("leadline.report").joinpath("templates", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _svg(figure: Figure) -> Markup:
    """The static figure with its description. vl-convert escapes the text of marks; the SVG holds no script. What it
    says of each mark goes: nothing reads that inside an image.
    """
    text = _DIGITS.sub(r"\1", _OF_MARKS.sub("", figure.svg().removeprefix("<svg ")))
    return Markup('<svg role="img" aria-label="{}" ').format(figure.spec["description"]) + Markup(text)


_DIGITS = re.compile(r"(\.\d\d)\d+(?=[^<>]*>)")  # of places, beyond a hundredth of a pixel
_OF_MARKS = re.compile(r' (?:aria-label|aria-roledescription|role|aria-hidden)="[^"]*"')


def _json(document: Any) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(plain(document), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _page_data(content: View, study_a: Section | None) -> dict[str, Any]:
    crossed = [pair for many in content.interactions.values() for pair in many]
    static = [*content.against_load.values(), *crossed, content.by_transaction, content.curve]
    static += [content.heat_map, *content.collections, content.timeline]
    static += study_a.figures if study_a else ()
    return {
        "figures": {figure.name: figure.spec for figure in static if figure is not None},
        "panels": [panel.live for panel in content.panels if panel.tracks],
        "trials": {
            str(choice.id): {
                "label": choice.label,
                "series": content.series[choice.id],
                "sentences": content.sentences[choice.id],
            }
            for choice in content.choices
        },
        "margin": MARGIN,
    }


def _audits(record: StudyRecord) -> list[dict[str, Any]]:
    """One row an audit: how often it passed, where it failed, what it said last or first failed with."""
    rows: dict[str, dict[str, Any]] = {}
    for trial in record.trials:
        for audit in trial.audits:
            row = rows.setdefault(audit.name, {"name": audit.name, "passed": 0, "failed": [], "detail": audit.detail})
            if audit.passed:
                row["passed"] += 1
            else:
                if not row["failed"]:
                    row["detail"] = audit.detail
                row["failed"].append(trial.id)
    return list(rows.values())


def _knobs(record: StudyRecord) -> list[dict[str, Any]]:
    """One row a knob and wanted level: what was found in each phase, and in how many trials."""
    rows: dict[tuple[str, str | None], dict[str, Any]] = {}
    looks = [reading for trial in record.trials for reading in trial.readings]
    originals: dict[str, Counter[str]] = {}
    undone: dict[str, Counter[str]] = {}
    for reading in looks:
        if reading.phase in ("original", "undone"):
            table = originals if reading.phase == "original" else undone
            table.setdefault(reading.knob, Counter())[reading.found] += 1
            continue
        row = rows.setdefault(
            (reading.knob, reading.wanted),
            {"knob": reading.knob, "wanted": reading.wanted, "before": Counter(), "after": Counter(), "wrong": 0},
        )
        row.setdefault(reading.phase, Counter())[reading.found] += 1
        row["wrong"] += not reading.matches
    for knob in {*originals, *undone} - {name for name, _ in rows}:
        rows[knob, None] = {"knob": knob, "wanted": None, "before": Counter(), "after": Counter(), "wrong": 0}
    for row in rows.values():
        row["original"], row["undone"] = originals.get(row["knob"], Counter()), undone.get(row["knob"], Counter())
    for reading in looks:
        if reading.phase == "undone" and not reading.matches:
            for row in rows.values():
                row["wrong"] += row["knob"] == reading.knob
    return [rows[key] for key in sorted(rows, key=lambda key: (key[0], str(key[1])))]
