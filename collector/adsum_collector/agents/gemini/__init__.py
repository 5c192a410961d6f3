"""Gemini CLI: what of it is known from its files alone."""
