"""Several drivers in step on several hosts, as one."""
