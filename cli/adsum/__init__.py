"""The command line: composes broker, hub and collector, and asks the hub for people."""
