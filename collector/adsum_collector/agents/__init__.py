"""One package per kind of agent: what that agent's own witnesses say, as signals."""
