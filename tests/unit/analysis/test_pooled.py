"""The noise that comparisons share: added where it is not smaller than their own, and at what error rate."""

import numpy as np
import pytest
from scipy import stats

from leadline.analysis.linear import Fit, Residual, pooled


def fitted(sigma: float) -> Fit:
    return Fit(np.zeros(1), np.ones((1, 1)), np.ones((1, 1)), 5, sigma)


def test_degrees_of_freedom_of_others_are_added() -> None:
    found = pooled(fitted(1.0), [Residual(10, 4.0), Residual(5, 1.0)])
    assert found.df == 20
    assert found.sigma**2 == pytest.approx((5 * 1 + 10 * 4 + 5 * 1) / 20)


@pytest.mark.parametrize("others", [[], [Residual(30, 0.25)], [Residual(30, 0.0)]])
def test_a_larger_noise_stays_its_own(others: list[Residual]) -> None:
    own = fitted(1.0)
    assert pooled(own, others) is own


@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.0, 5.0])
def test_intervals_hold_where_a_step_has_more_noise_than_the_others(ratio: float) -> None:
    random = np.random.default_rng(5)
    plays, missed = 2000, 0
    for _ in range(plays):
        own = fitted(ratio * float(np.sqrt(random.chisquare(5) / 5)))
        fit = pooled(own, [Residual(30, float(random.chisquare(30) / 30))])
        missed += abs(ratio * random.standard_normal()) > stats.t.isf(0.025, fit.df) * fit.sigma
    assert missed <= stats.binom.ppf(0.999, plays, 0.055)
