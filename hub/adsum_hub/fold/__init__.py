"""Folds what the witnesses report into facts, in whatever order it comes. Pure."""
