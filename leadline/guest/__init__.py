"""Guests: virtual machines of QEMU's, in real or in virtual time, with save points and forks."""
