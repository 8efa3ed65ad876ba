"""This process: its signals, its threads, the files that it is given."""

from __future__ import annotations

from leadline.host.private import usual_mask
from leadline.host.process import one_blas_thread
from leadline.host.secrets import redacted
from leadline.host.textfile import read_text
from leadline.trial.interruption import Interruption

__all__ = ["Interruption", "one_blas_thread", "read_text", "redacted", "usual_mask"]
