"""A forecast in sentences."""

from __future__ import annotations

import math

from leadline.model.bounds import DAY
from leadline.model.guest import FORKS
from leadline.model.result import Interval
from leadline.model.units import format_duration, rounded
from leadline.planning.forecast import Forecast, Need, OverHosts, Setup
from leadline.planning.layouts import Advice, Compared, advise
from leadline.planning.noise import Between, Component, Noise, cv_of

FEW = 6  # degrees of freedom below which an estimate of noise is a guess


def figure(value: float) -> str:
    """Three significant digits, never in exponents; beyond 1000 % a figure says only that nothing is known."""
    return rounded(value, 3) if abs(value) < 999.5 else "more than 1000"


def _interval(interval: Interval) -> str:
    return f"[{figure(interval.low)}, {figure(interval.high)}]"


def _component(component: Component) -> str:
    return f"{figure(component.cv)} % {_interval(component.cv_interval)}"


def noise_lines(noise: Noise) -> list[str]:
    """What is known of the noise; 95 % intervals in brackets."""
    if noise.between_slots is not None and not noise.assumed:
        return [f"noise of {noise.response}, from {noise.trials} trials with slots of {noise.source}: {_slots(noise)}"]
    if noise.between_slots is not None:
        return [f"noise of {noise.response}: {_slots(noise)} ({noise.source})"]
    if noise.trial is None:
        return [f"noise of {noise.response}: {figure(cv_of(noise.sigma2))} % {noise.words.trials} ({noise.source})"]
    lines = [
        f"noise of {noise.response}, from {noise.trials} trials of {noise.source}:",
        f"  {noise.words.in_block} {_component(noise.trial)}",
    ]
    if noise.trial.df < FEW:
        lines[0] = lines[0][:-1] + f" (the degrees of freedom are only {noise.trial.df}: a first guess):"
    if noise.block is not None:
        lines.append(f"  between {noise.words.blocks} {_component(noise.block)}")
    auto = noise.autocorrelation
    if auto is not None and noise.second is not None and noise.steady:
        lines.append(
            f"  between seconds of a trial {figure(100 * math.sqrt(auto.variance))} %, autocorrelation time "
            f"{figure(auto.time)} s {_interval(auto.interval)}: the mean of {noise.steady:.0f} s is known to "
            f"{figure(100 * math.sqrt(noise.second / noise.steady))} %"
        )
    for drift in noise.drifts:
        lines.append(f"  {drift.sentence}")
    return lines


def _slots(noise: Noise) -> str:
    variance = noise.between_slots or 0.0
    text = f"{figure(cv_of(variance))} % between slots of a trial"
    if noise.slot_seconds:
        text += f", each measured for {noise.slot_seconds:.0f} s"
    return text + (f", {_component(noise.block)} between trials" if noise.block is not None else "")


def forecast_lines(found: Forecast) -> list[str]:
    """The smallest effect, what would halve it, and the chance of the effect asked for."""
    lines = []
    small, large = (found.smallest.get(power) for power in (0.8, 0.9))
    if small is not None and large is not None:
        family = f"{found.comparisons} comparisons judged together at {100 * found.level:g} %"
        lines.append(
            f"smallest effect it finds: {figure(small)} % in 8 of 10 such studies, {figure(large)} % in 9 of 10 "
            f"({family if found.comparisons > 1 else 'one comparison'})"
        )
    if found.reason:
        lines.append(f"smallest effect: not known; {found.reason}" if small is None else f"but {found.reason}")
    if found.between is not None:
        lines.append(_between(found.between))
    if found.hosts is not None:
        lines.append(_over_hosts(found.hosts))
    if found.halve:
        lines.append(f"to halve that: {'; or '.join(found.halve)}")
    if found.lasting:
        lines.append(found.lasting)
    if found.effect is not None and found.chance is not None:
        lines.append(f"an effect of {figure(found.effect)} % is found with probability {found.chance:.2f}")
    if (need := found.need) is not None and need.kind != FORKS and (need.seconds or math.inf) > DAY:
        lines.append(
            "in real time that takes more than a day; in virtual time instructions are counted, without noise between "
            "forks: `--set design.kind=forks`, of programs `leadline command --count` (docs/guides/virtual-time.md)"
        )
    return lines


def _over_hosts(found: OverHosts) -> str:
    """The smallest effect of the mean over hosts, and for whom."""
    small, large = (found.smallest.get(power) for power in (0.8, 0.9))
    idle = found.hosts.count - found.used
    head = f"on {found.used} hosts" + (f" ({idle} more have no block): " if idle else ": ")
    if small is None or large is None:
        return f"{head}smallest effect not known"
    sizes = f"{head}smallest effect {figure(small)} % in 8 of 10 such studies, {figure(large)} % in 9 of 10"
    if not found.random:
        return f"{sizes}, of the mean over these hosts alone, however much effects differ between them"
    how = f"where an effect differs by {figure(found.hosts.differ)} % from host to host ({found.hosts.source})"
    return f"{sizes}, for hosts like these, {how}"


def _between(found: Between) -> str:
    head = f"between trials ({', '.join(found.factors)}): "
    small, large = (found.smallest.get(power) for power in (0.8, 0.9))
    if small is None or large is None:
        return f"{head}smallest effect not known; {found.reason}"
    text = f"{head}smallest effect {figure(small)} % in 8 of 10 such studies, {figure(large)} % in 9 of 10"
    return text if found.chance is None else f"{text}; the effect asked for with probability {found.chance:.2f}"


def need_line(need: Need) -> str:
    """One design: what an effect needs in it."""
    if need.trials is None or need.seconds is None:
        return f"{need.kind}: {need.note}"
    note = f" ({need.note})" if need.note else ""
    return (
        f"{need.kind}: {need.replicates} {need.repeats}{'' if need.replicates == 1 else 's'}, {need.trials} trials, "
        f"about {format_duration(need.seconds)}{note}"
    )


def advice_of(noise: Noise, setup: Setup) -> Advice | None:
    """Where to repeat, from the noise's own components; None without per-second series."""
    if noise.second is None or noise.beyond is None or noise.autocorrelation is None:
        return None
    shortest = max(5.0, math.ceil(10 * noise.autocorrelation.time))
    return advise(noise.second, noise.beyond, setup.steady, setup.overhead, shortest)


def layout_lines(found: Compared) -> list[str]:
    """The layouts as a table, what its figures rest on, and which is proposed."""
    cvs = ", ".join(
        f"{name} {figure(cv_of(value))} %{' (assumed)' if name in found.components.assumed else ''}"
        for name, value in found.parts.items()
    )
    asked_text = f"; {figure(found.effect)} % needs" if found.effect is not None else ""
    lines = [f"the same question in about {format_duration(found.seconds)} (noise of a trial: {cvs})"]
    lines[0] += f": smallest effect in 8 of 10{asked_text}"
    for layout in found.layouts:
        if layout.smallest is None or layout.seconds is None:
            lines.append(f"  {layout.name:10}  {'not possible: ' if layout.trials is None else ''}{layout.reason}")
            continue
        slots = f" with {layout.slots} slots" if layout.slots else ""
        text = f"  {layout.name:10}  {f'{layout.trials} trials{slots}':26}  {format_duration(layout.seconds):>7}"
        text += f"  {figure(layout.smallest):>5} %"
        if found.effect is not None:
            text += f"  {format_duration(layout.need) if layout.need is not None else 'not within reason':>9}"
        lines.append(text + ("  this study" if layout.own else ""))
    best = found.best
    if best is not None and not best.own:
        lines.append(f"best: {best.name}, by " + " ".join(f"--set {key}={value}" for key, value in best.write.items()))
    elif best is not None:
        lines.append(f"best: {best.name}, as this study is")
    return lines
