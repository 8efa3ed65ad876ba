"""The live page, ``leadline ui``: what runs, what has been run, and figures for Prometheus;
``leadline mcp``, tools for programs that tune.
"""
