"""Scripts that each measure one part: the core, passes, pictures, functions, training."""
