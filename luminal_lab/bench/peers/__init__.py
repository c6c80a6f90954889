"""The libraries measured beside ours, one file each: every workload in its best form."""
