"""What Slurm says of its jobs and nodes: the one place that touches its APIs and commands."""
