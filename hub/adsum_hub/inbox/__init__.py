"""What a host's stream holds, taken apart and put in order. Pure."""
