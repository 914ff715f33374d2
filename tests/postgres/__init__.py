"""A real PostgreSQL for tests, and tests of what happens when it fails."""
