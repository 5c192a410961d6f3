"""What `adsum doctor` looks at, and how it tells it; other commands ask some of it too."""
