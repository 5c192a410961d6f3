"""Where what happens in sessions comes in: the sockets, and what listens at each."""
