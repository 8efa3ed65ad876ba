"""Studies over a pool of hosts: each block is a job on a host of its own; what it measured comes back as a bundle."""
