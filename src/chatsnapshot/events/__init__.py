"""What events mean: the catalogue of types and the one reader of their payloads' plain forms."""
