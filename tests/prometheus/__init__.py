"""Real PromQL engines on this machine, for tests and benchmarks."""
