"""The store conformance suite and fault tools, for this project's stores and for those of others (docs/conformance.md)."""
