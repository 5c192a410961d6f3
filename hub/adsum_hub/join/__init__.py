"""Machines that join and leave: their tokens, users in Redis, names, and how they are forgotten."""
