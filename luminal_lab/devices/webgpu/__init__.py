"""WebGPU: whatever GPU a machine has, or its processor."""
