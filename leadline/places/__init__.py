"""Where studies run: this host, hosts over SSH, a pool, guests, a simulated host; each is a testbed."""
