"""The CPU: kernels as C, in threads; trials of kernels that are not trusted."""
