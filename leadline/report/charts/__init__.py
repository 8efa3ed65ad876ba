"""Figures as Altair specifications: one specification gives the interactive page, SVG and PNG."""
