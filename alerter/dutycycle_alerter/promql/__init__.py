"""The one place that touches a PromQL engine's HTTP API."""
