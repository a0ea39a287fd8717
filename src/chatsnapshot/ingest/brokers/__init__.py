"""Brokers: messages of a stream become events, each once, and are acknowledged after the commit (``docs/ingest.md``)."""
