"""Reports of the ledger: who and what used GPUs how well, where their hours went, and how often rules were right."""
