"""Measures the ledger against raw limits and peers, side by side in one run: ``make bench``."""
