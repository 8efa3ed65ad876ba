"""Hosts: where services run, what can be changed on them, and how every change is undone."""
