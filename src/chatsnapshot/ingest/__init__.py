"""Ingest: turns wire formats of others into events; a folder each."""
