"""Recordings: what a compile did, as values that can be kept, and files that hold them."""
