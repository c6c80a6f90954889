"""The conformance kit: what a device must compute."""
