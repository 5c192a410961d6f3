"""What the facts mean at an instant: the numbered rules, what they rest on, who is heard and unread. Pure."""
