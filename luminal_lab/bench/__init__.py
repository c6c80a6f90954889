"""The benchmark: the same work for us and for other libraries, in turns, on the same data."""
