"""Views of the history: pure, versioned folds over entries, and what reads them."""
