"""The client of PromQL engines."""
