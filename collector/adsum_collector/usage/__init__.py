"""What sessions used up, read from their transcripts: every message once, history beside what grows."""
