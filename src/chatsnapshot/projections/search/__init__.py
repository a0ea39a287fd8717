"""Search over all runs: words found in what was recorded, from an index that can be deleted and made again."""
