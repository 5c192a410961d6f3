"""The demo: a made-up fleet, played through the collectors' own code. See docs/design.md for the real path."""
