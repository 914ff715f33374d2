"""What the alerter reads."""
