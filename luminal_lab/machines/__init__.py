"""What machines can do: caches, cores, rates, the figures of cards; what kernels take of them."""
