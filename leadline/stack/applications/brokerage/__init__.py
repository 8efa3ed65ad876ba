"""The reference application *brokerage* (docs/reference/brokerage.md)."""

from leadline.stack.applications.brokerage.application import Brokerage

__all__ = ["Brokerage"]
