"""What is slow in a graph, what would help, and by how much: `cx.advise()`."""
