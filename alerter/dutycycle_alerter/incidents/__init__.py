"""Incidents: what is wrong with a job, from the first finding to its resolution."""
