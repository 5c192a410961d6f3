"""OpenCode: what of it is known from its database alone."""
