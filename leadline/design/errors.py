"""A refused design, with the key of the study file that is to blame."""

from __future__ import annotations

from leadline.model.errors import UsageError


class DesignError(UsageError):
    """``path`` leads to the key of a study file that the sentence is about, such as ``("design", "resolution")``."""

    def __init__(self, sentence: str, path: tuple[str, ...] = ("design",)) -> None:
        super().__init__(sentence)
        self.path = path
