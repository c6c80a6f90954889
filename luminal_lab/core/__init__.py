"""The lazy primop core: dims, dtypes, ops, the IR and its text, the interpreter, lazy tensors."""
