"""Reads what the hosts send: who there is, their signals in order, their heartbeats, what is missing."""
