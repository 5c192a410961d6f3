"""Sends the list as it changes to every page, over its WebSocket."""
