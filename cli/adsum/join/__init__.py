"""`adsum join` and `adsum leave`."""
