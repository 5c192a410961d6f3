"""REST v1: what it takes and answers, for the roster and for usage."""
