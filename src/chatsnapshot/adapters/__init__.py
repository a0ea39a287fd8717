"""Adapters: each turns one runtime's own events into envelopes while it runs, and never harms the run."""
