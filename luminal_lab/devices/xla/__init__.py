"""XLA through JAX: the CPU here, TPUs and GPUs where JAX has them, and files for all of them."""
