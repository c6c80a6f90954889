"""Where each value of a program lives, and the proof that none is overwritten too early."""
