"""Pools of hosts: blocks of a study given out to Slurm jobs or to a list of hosts, and taken in as bundles."""
