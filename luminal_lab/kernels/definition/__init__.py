"""What a kernel computes, in index notation."""
