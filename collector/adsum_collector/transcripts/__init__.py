"""Finds transcripts and reads them on, whatever became of the files meanwhile."""
