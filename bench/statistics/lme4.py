"""Recorded rotations by this analysis and by R's lme4, interval by interval: docs/evidence/reference-values.md.

python bench/statistics/lme4.py LAB
python bench/statistics/lme4.py --simulated STUDIES

Needs R with lmerTest (Debian: r-cran-lmertest). There: the logarithm of each response; levels, their pairs, numbers of
blocks, and of slots where this analysis has those, fixed; instances, and each factor's effect in an instance, random;
Satterthwaite's degrees of freedom.
"""

from __future__ import annotations

import csv
import io
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from scipy import stats

import leadline
from bench.statistics.components import SOURCES, observations, plan_of
from leadline.analysis.study import analyse
from leadline.model.plan import Plan
from leadline.model.result import Observation

MODEL = """\
suppressMessages(library(lmerTest))
rows <- read.csv(file("stdin"))
factors <- grep("^x", names(rows), value = TRUE)
fixed <- c(paste0("(", paste(factors, collapse = " + "), ")^2"), if (length(unique(rows$block)) > 1) "factor(block)")
numbered <- if (Sys.getenv("NUMBERED") == "") character() else strsplit(Sys.getenv("NUMBERED"), " ")[[1]]
random <- c("(1 | trial)", paste0("(0 + ", factors, " | trial)"))
for (response in grep("^y", names(rows), value = TRUE)) {
  number <- if (substring(response, 2) %in% numbered) "factor(slot)"
  model <- as.formula(paste(response, "~", paste(c(fixed, number, random), collapse = " + ")))
  fitted <- suppressMessages(suppressWarnings(lmer(model, data = rows)))
  table <- coef(summary(fitted))
  for (factor in factors) {
    row <- table[factor, ]
    cat(substring(response, 2), substring(factor, 2), row["Estimate"], row["Std. Error"], row["df"], "\\n")
  }
}
"""
FEWEST = 40  # slots of a rotation that is compared
Row = tuple[str, float, float, float, float, float, float]  # factor; ours and theirs: estimate, low, high (logarithms)


def rows_of(plan: Plan, slots: Sequence[Observation], factors: list[str], responses: list[str]) -> str:
    """One line a slot; factors are -1/2 or 1/2, so that an effect is the mean over levels of the others."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(
        ["trial", "block", "slot", *(f"x{at}" for at in range(len(factors))), *(f"y{name}" for name in responses)]
    )
    for row in slots:
        if row.failure is None and row.responses:
            levels = [0.5 - (row.treatment[name] == plan.baseline[name]) for name in factors]
            writer.writerow(
                [row.trial, row.block, row.slot, *levels, *(math.log(row.responses[name]) for name in responses)]
            )
    return out.getvalue()


def compared(plan: Plan, slots: Sequence[Observation], responses: list[str]) -> Iterator[tuple[str, Row]]:
    """Response, and the effect of each factor's only level."""
    factors = [factor.name for factor in plan.factors]
    table, analyses = rows_of(plan, slots, factors, responses), analyse(plan, slots, responses).responses
    numbered = " ".join(one.response for one in analyses if "slots of one number" in one.model)
    done = subprocess.run(
        ["Rscript", "-e", MODEL],
        input=table,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBERED": numbered},
    )
    theirs = {}
    for line in done.stdout.splitlines():
        response, number, estimate, error, degrees = line.split()
        reach = float(stats.t.ppf(0.975, float(degrees))) * float(error)
        theirs[response, factors[int(number)]] = (float(estimate), float(estimate) - reach, float(estimate) + reach)
    for analysis in analyses:
        for effect in analysis.effects:
            if effect.percent is not None and effect.interval is not None:
                ours = (effect.percent, effect.interval.low, effect.interval.high)
                middle, low, high = (math.log1p(percent / 100) for percent in ours)
                yield analysis.response, (effect.factor, middle, low, high, *theirs[analysis.response, effect.factor])


def table(found: dict[tuple[str, str], list[Row]], truth: dict[str, float]) -> None:
    """``truth``: logarithms of effects that are known."""
    print("\n| response | effect | studies | estimates apart, of a width | ours as wide | zero: they agree | hold |")
    print("| --- | --- | ---: | ---: | --- | ---: | --- |")
    for (response, factor), rows in found.items():
        figures = np.array([row[1:] for row in rows])
        widths = (figures[:, 2] - figures[:, 1]) / (figures[:, 5] - figures[:, 4])
        apart = np.abs(figures[:, 0] - figures[:, 3]) / (figures[:, 5] - figures[:, 4])
        ours, theirs = ((figures[:, at] <= 0) & (figures[:, at + 1] >= 0) for at in (1, 4))
        low, middle, high = np.quantile(widths, (0, 0.5, 1))
        true = truth.get(factor, math.nan)
        hold = [np.mean((figures[:, at] <= true) & (figures[:, at + 1] >= true)) for at in (1, 4)]
        cells = [f"{apart.max():.2f}", f"{middle:.2f} ({low:.2f} to {high:.2f})", f"{np.sum(ours == theirs)}"]
        cells += [f"{hold[0]:.2f}; {hold[1]:.2f}" if truth else ""]
        print(f"| {response} | {factor} | {len(rows)} | {' | '.join(cells)} |")


def simulated(studies: int) -> None:
    plan, gains = plan_of("rotation of 8"), [0.0, 0.02, 0.05]
    truth = {factor.name: gain for factor, gain in zip(plan.factors, gains, strict=True)}
    for source in ("noise alone", "effect by 4 %", "AR(1) of 0.6"):
        found: dict[tuple[str, str], list[Row]] = {}
        for seed in range(studies):
            slots = observations(plan, SOURCES[source], seed, gains)
            for _, row in compared(plan, slots, ["throughput"]):
                found.setdefault((source, row[0]), []).append(row)
        table(found, truth)


def main() -> None:
    if sys.argv[1] == "--simulated":
        simulated(int(sys.argv[2]))
        return
    responses = ["cpu_per_transaction", "p50", "throughput"]
    found: dict[tuple[str, str], list[Row]] = {}
    for study in leadline.load_lab(Path(sys.argv[1])).studies():
        plan, slots = study.record.plan, study.record.observations()
        if sum(bool(row.responses) for row in slots) < FEWEST:
            continue
        for response, row in compared(plan, slots, responses):
            found.setdefault((response, row[0]), []).append(row)
            ours, theirs = ([f"{100 * math.expm1(one):+.1f}" for one in part] for part in (row[1:4], row[4:]))
            print(study.record.study.study, response, row[0], *ours, "|", *theirs)
    table(found, {})


if __name__ == "__main__":
    main()
