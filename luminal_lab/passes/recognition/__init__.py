"""Regions that have a name: what they look like, one file a shape, and the pass that finds them."""
