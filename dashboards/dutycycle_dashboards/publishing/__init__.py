"""Bringing dashboards and incidents into a Grafana: its API, what differs, and what is written."""
