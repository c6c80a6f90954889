"""What CUDA and Metal share."""
