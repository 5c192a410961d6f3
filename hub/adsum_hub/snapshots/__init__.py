"""What of each host is kept in Redis, and written by compare-and-set."""
