"""Guests: virtual machines with a kernel of their own, their save points and forks, in real or in virtual time."""
