"""Named configurations as treatments."""

from __future__ import annotations

import pytest

from leadline.design import DesignError, make_plan
from leadline.model.design import Design
from leadline.model.plan import Factor

FACTORS = [Factor("a", (1, 2), 1), Factor("b", (1, 2), 1)]


def test_a_factor_that_no_configuration_varies_is_refused() -> None:
    both = Design(kind="configurations", configurations={"usual": {}, "other": {"a": 2, "b": 2}}, sentinels=None)
    assert {factor.name for factor in make_plan(FACTORS, both).factors} == {"a", "b"}
    one = both.model_copy(update={"configurations": {"usual": {}, "other": {"a": 2}, "same": {"a": 2, "b": 1}}})
    with pytest.raises(DesignError, match="are the same"):
        make_plan(FACTORS, one)
    one = both.model_copy(update={"configurations": {"usual": {}, "other": {"a": 2}}})
    with pytest.raises(DesignError, match="no configuration varies b") as refused:
        make_plan(FACTORS, one)
    assert refused.value.path == ("factors", "b")
