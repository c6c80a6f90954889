"""Algebra: other ways to compute the elements of an array, by rules that know no layer."""
