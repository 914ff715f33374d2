"""What the exporter reads."""
