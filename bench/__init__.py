"""Benchmarks, run by hand: `python -m bench.NAME` from the checkout."""

from leadline.host.process import one_blas_thread

one_blas_thread()
