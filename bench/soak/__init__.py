"""How often verdicts on long runs and on histories are right."""
