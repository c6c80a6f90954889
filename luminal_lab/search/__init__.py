"""Search: kernels that nobody wrote, chosen by times that were measured."""
