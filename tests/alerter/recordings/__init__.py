"""Tests of reading and writing recordings."""
