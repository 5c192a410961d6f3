"""The demo plays a made-up fleet through the collectors' own code."""
