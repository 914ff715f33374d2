"""The exporter: samples NVML, knows whose job each GPU is, publishes both to Prometheus."""
