"""The reference application *dealership* (docs/reference/dealership.md)."""

from leadline.stack.applications.dealership.application import Dealership

__all__ = ["Dealership"]
