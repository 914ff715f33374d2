"""Grafana's HTTP API on a real socket, as far as dashboards, folders and annotations go."""
