"""What the witnesses say becomes facts, in whatever order it comes. Pure."""
