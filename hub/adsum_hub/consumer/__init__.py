"""Reads what the hosts send: their signals in order, their heartbeats, what is missing."""
