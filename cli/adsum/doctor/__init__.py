"""The checks of `adsum doctor`, and how it shows them; other commands use some too."""
