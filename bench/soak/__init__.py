"""How often the verdict on a long run calls a stationary one degrading: ``python -m bench.soak``."""
