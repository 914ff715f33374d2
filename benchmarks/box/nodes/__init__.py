"""Nodes of the fleet: some on the NVML double with an exporter's process each, the others in two processes together."""
