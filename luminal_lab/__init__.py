"""luminal_lab: a deep-learning compiler you can see through, for notebooks."""
