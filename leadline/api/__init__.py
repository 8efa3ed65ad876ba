"""What the command line and programs use: studies, runs, labs, hosts, stacks, loads, GC logs.

``import leadline`` has the names of ``leadline.api.public``; docs/guides/python.md shows their use.
"""
