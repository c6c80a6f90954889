"""What machines can do: caches, cores, rates, specifications."""
