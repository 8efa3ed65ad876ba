"""Guests: virtual machines with a kernel of their own, where trials run apart from the host's."""
