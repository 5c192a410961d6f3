"""Transcripts: found, read on from where they were read to, whatever became of the files meanwhile."""
