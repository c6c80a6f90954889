"""The steps that a kernel gets by default."""
