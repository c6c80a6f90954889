"""What CUDA, Metal and WebGPU share."""
