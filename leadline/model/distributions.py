"""The distributions of test statistics, from special functions: ``scipy.stats`` takes half a second to load.

Every function takes numbers or arrays that broadcast, and gives what the function of the same name in ``scipy.stats``
gives (tests/unit/model/test_model_units.py). ``sf`` is 1 - ``cdf``, ``isf`` its inverse, both exact in the far tail.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Values = NDArray[np.float64]


class norm:  # noqa: N801 - named as in scipy.stats, like all of them
    """The normal distribution of mean 0 and variance 1."""

    @staticmethod
    def cdf(x: ArrayLike) -> Values:
        """Probability of at most ``x``."""
        return _values(special.ndtr(_floats(x)))

    @staticmethod
    def sf(x: ArrayLike) -> Values:
        """Probability of more than ``x``."""
        return _values(special.ndtr(-_floats(x)))

    @staticmethod
    def ppf(q: ArrayLike) -> Values:
        """The quantile of probability ``q``."""
        return _values(special.ndtri(_floats(q)))

    @staticmethod
    def isf(q: ArrayLike) -> Values:
        """The value that is exceeded with probability ``q``."""
        return _values(-special.ndtri(_floats(q)))


class t:  # noqa: N801
    """Student's t with ``df`` degrees of freedom, infinitely many included; nan where ``df`` is not above 0."""

    @staticmethod
    def cdf(x: ArrayLike, df: ArrayLike) -> Values:
        """Probability of at most ``x``."""
        at, free = _floats(x), _positive(df)
        return _values(np.where(np.isinf(free), special.ndtr(at), special.stdtr(free, at)))

    @staticmethod
    def sf(x: ArrayLike, df: ArrayLike) -> Values:
        """Probability of more than ``x``."""
        return t.cdf(-_floats(x), df)

    @staticmethod
    def ppf(q: ArrayLike, df: ArrayLike) -> Values:
        """The quantile of probability ``q``."""
        at, free = _floats(q), _positive(df)
        finite = special.stdtrit(np.where(np.isinf(free), 1.0, free), at)
        ends = np.where(at == 0, -np.inf, np.where(at == 1, np.inf, finite))
        return _values(np.where(np.isnan(free), np.nan, np.where(np.isinf(free), special.ndtri(at), ends)))

    @staticmethod
    def isf(q: ArrayLike, df: ArrayLike) -> Values:
        """The value that is exceeded with probability ``q``."""
        return _values(-t.ppf(q, df))


class chi2:  # noqa: N801
    """Chi squared with ``df`` degrees of freedom; nan where ``df`` is not above 0."""

    @staticmethod
    def sf(x: ArrayLike, df: ArrayLike) -> Values:
        """Probability of more than ``x``."""
        return _values(special.chdtrc(_positive(df), np.maximum(_floats(x), 0.0)))

    @staticmethod
    def ppf(q: ArrayLike, df: ArrayLike) -> Values:
        """The quantile of probability ``q``."""
        return _values(2 * special.gammaincinv(_positive(df) / 2, _floats(q)))

    @staticmethod
    def isf(q: ArrayLike, df: ArrayLike) -> Values:
        """The value that is exceeded with probability ``q``."""
        return _values(2 * special.gammainccinv(_positive(df) / 2, _floats(q)))


class f:  # noqa: N801
    """Fisher's F with ``dfn`` and ``dfd`` degrees of freedom; nan where one is not above 0."""

    @staticmethod
    def sf(x: ArrayLike, dfn: ArrayLike, dfd: ArrayLike) -> Values:
        """Probability of more than ``x``."""
        return _values(special.fdtrc(_positive(dfn), _positive(dfd), np.maximum(_floats(x), 0.0)))

    @staticmethod
    def ppf(q: ArrayLike, dfn: ArrayLike, dfd: ArrayLike) -> Values:
        """The quantile of probability ``q``."""
        n, d, at = _positive(dfn), _positive(dfd), _floats(q)
        with np.errstate(divide="ignore"):
            return _values(special.betaincinv(n / 2, d / 2, at) / special.betainccinv(d / 2, n / 2, at) * d / n)

    @staticmethod
    def isf(q: ArrayLike, dfn: ArrayLike, dfd: ArrayLike) -> Values:
        """The value that is exceeded with probability ``q``."""
        n, d, at = _positive(dfn), _positive(dfd), _floats(q)
        with np.errstate(divide="ignore"):
            return _values(special.betainccinv(n / 2, d / 2, at) / special.betaincinv(d / 2, n / 2, at) * d / n)


class beta:  # noqa: N801
    """The beta distribution with parameters ``a`` and ``b``; nan where one is not above 0."""

    @staticmethod
    def ppf(q: ArrayLike, a: ArrayLike, b: ArrayLike) -> Values:
        """The quantile of probability ``q``."""
        return _values(special.betaincinv(_positive(a), _positive(b), _floats(q)))


class nct:  # noqa: N801
    """Student's t with ``df`` degrees of freedom and noncentrality ``nc``."""

    @staticmethod
    def cdf(x: ArrayLike, df: ArrayLike, nc: ArrayLike) -> Values:
        """Probability of at most ``x``."""
        return _values(special.nctdtr(_positive(df), _floats(nc), _floats(x)))

    @staticmethod
    def sf(x: ArrayLike, df: ArrayLike, nc: ArrayLike) -> Values:
        """Probability of more than ``x``."""
        return nct.cdf(-_floats(x), df, -_floats(nc))


def _floats(values: ArrayLike) -> Values:
    return np.asarray(values, dtype=np.float64)


def _positive(values: ArrayLike) -> Values:
    floats = _floats(values)
    return np.where(floats > 0, floats, np.nan)


def _values(found: Any) -> Values:
    values: Values = np.asarray(found, dtype=np.float64)[()]
    return values
