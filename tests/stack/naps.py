"""A study whose trials only sleep: the long nap is worse by what it is longer."""


def naps(blocks: int, short: float = 0.2, long: float = 0.3, runs: int = 3, factors: str = "") -> str:
    """The file of a study ``naps``; ``factors``: more of them, as YAML between braces has them."""
    return f"""
study: naps
question: Does a longer nap take longer?
command:
  run: "sleep {{nap}}"
  levels: {{ nap: {{ short: "{short}", long: "{long}" }} }}
  runs: {runs}
  warmup: 0
factors: {{ nap: [short, long]{factors and f", {factors}"} }}
design: {{ replicates: {blocks}, blocks: by-replicate, sentinels: null, seed: 5 }}
responses: [wall]
dead_man: 1s
"""
