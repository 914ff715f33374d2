"""A whole cluster, end to end: a real Slurm, an exporter on each of its nodes, a real Prometheus, one alerter."""
