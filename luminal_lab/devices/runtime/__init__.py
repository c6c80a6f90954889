"""What programs of all devices share."""
