"""How a kernel runs: loops and statements."""
