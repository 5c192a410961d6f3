"""Claude Code: its hooks, registry, transcripts and status line, read into signals."""
