"""The store conformance suite and fault tools, for this project's stores and others (docs/conformance.md)."""
