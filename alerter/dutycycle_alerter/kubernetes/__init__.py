"""Kubernetes as the scheduler of jobs: who holds GPUs by the word of its API servers."""
