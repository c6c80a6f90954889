"""Scripts, each of which measures one part: the core, passes, pictures, functions, training."""
