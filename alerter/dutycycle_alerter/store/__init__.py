"""The store: incidents, events, the usage ledger and the scraped counters, in SQLite (PostgreSQL for a cluster)."""
