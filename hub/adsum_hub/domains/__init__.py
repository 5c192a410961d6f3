"""Domains: plugins that word a session's state for one kind of work. What a plugin may import."""

from adsum_hub.domains.contract import API_VERSION, Display, hookimpl
from adsum_shared.state import ChildView, Chip, RequestView, SessionView

__all__ = ["API_VERSION", "ChildView", "Chip", "Display", "RequestView", "SessionView", "hookimpl"]
