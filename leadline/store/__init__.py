"""The lab: rows of studies and trials, their files, claims and bundles."""
