"""The place of the Grafana dashboards as code, which are still to come; it holds nothing yet."""
