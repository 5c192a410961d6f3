"""What the facts mean at an instant. Pure."""
