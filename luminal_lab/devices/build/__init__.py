"""Compilers of this machine, and a cache of what they have made."""
