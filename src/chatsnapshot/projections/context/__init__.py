"""The relevant past of runs within a token budget, as text or messages that a model can be given."""
