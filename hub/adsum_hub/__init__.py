"""Streams in, one live roster out: fold, resolve, serve."""
