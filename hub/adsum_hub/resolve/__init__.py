"""What the facts mean at an instant: the numbered rules, and what they rest on. Pure."""
