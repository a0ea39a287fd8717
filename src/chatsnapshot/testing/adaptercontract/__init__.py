"""The contract of adapters: what an adapter of any runtime records, checked on real runs (see ``testing.adapters``)."""
