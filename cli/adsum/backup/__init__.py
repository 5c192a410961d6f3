"""`adsum hub backup` and `restore`."""
