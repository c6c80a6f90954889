"""What may be one kernel."""
