"""Models from elsewhere, as modules: by PyTorch's exporter, and from ONNX files."""
