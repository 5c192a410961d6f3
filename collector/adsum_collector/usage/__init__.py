"""Reads from transcripts what sessions used up: every message once, history beside what grows."""
