"""Pictures of graphs, kernels and times. The one place where picture libraries are imported."""
