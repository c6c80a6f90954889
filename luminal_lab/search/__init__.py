"""Search: programs that compute the same, found by general rules and judged by measured time."""
