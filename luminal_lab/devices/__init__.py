"""Where programs run: one file a device, and what compiles, keeps and loads their code."""
