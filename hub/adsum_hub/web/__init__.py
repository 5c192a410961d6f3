"""The page: what a browser loads, and what serves it."""
