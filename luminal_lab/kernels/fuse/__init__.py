"""Which nodes may be one kernel."""
