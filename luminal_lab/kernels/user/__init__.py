"""`ll.kernel`: source that users write."""
