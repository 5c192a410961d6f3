"""Hooks in the agent's settings: which, put in and taken out so that nothing else changes."""
