"""Machines that join and leave: tokens, a user of their own in Redis, names, and who is forgotten."""
