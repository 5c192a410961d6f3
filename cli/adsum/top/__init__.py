"""`adsum top`: the full screen."""
