"""The live page, ``leadline ui``: what runs, what has been run, and figures for Prometheus and OpenTelemetry;
``leadline mcp``, tools for programs that tune.
"""
