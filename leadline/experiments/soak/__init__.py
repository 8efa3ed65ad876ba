"""Long runs: a stack under load for hours or days, condensed as it goes."""
