"""Grafana dashboards as code: who uses the GPUs, how well, and what is wrong now."""
