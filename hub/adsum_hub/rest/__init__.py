"""REST v1: its answers, what it takes, and the roster and usage by it."""
