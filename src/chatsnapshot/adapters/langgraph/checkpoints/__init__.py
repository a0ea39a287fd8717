"""LangGraph's checkpoints as entries of a ledger; knows their bytes, not LangGraph."""
