"""The libraries that are measured beside ours, one file each: every workload in its best form."""
