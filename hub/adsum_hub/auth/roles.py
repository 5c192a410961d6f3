"""What a request needs: nothing, or a role. The one table of it. Pure."""

from __future__ import annotations

from adsum_hub.rest.sign_in_answers import Role

__all__ = ["ROLES", "Role", "covers", "needed_for"]

#: Each may do what those before it may.
ROLES: tuple[Role, ...] = ("viewer", "operator", "admin")

#: The page's own files and its way in hold nothing of anybody's; health is for probes.
OPEN = frozenset(
    {
        "/livez",
        "/readyz",
        "/login",
        "/api/v1/login",
        # By a join token, or by what a machine was given when it joined.
        "/api/v1/join",
        "/api/v1/join/check",
        "/api/v1/machine",
        "/api/v1/machine/leave",
        "/api/v1/machine/ingest",
        "/ingest",
        # A worker whose update is led elsewhere stays the old one.
        "/sw.js",
    }
)
OPEN_FOLDER = "/static/"
#: Anybody may ask; whoever may look at the list is told more.
MORE_TO_VIEWERS = frozenset({"/readyz"})
#: Who may enter at all is for admins, reading it too.
ADMINS = ("/api/v1/tokens", "/api/v1/join-tokens", "/api/v1/sign-ins", "/api/v1/login-links")
READING = frozenset({"GET", "HEAD", "OPTIONS"})
CHANGING: dict[tuple[str, str], Role] = {
    ("POST", "/api/v1/logout"): "viewer",
    # One's own browser.
    ("POST", "/api/v1/notify/subscriptions"): "viewer",
    ("DELETE", "/api/v1/notify/subscriptions"): "viewer",
    ("POST", "/api/v1/notify/test"): "operator",
}


def covers(role: Role, needed: Role) -> bool:
    return ROLES.index(role) >= ROLES.index(needed)


def needed_for(method: str, path: str) -> Role | None:
    """None: anybody may. What changes something and is not in the table is for admins."""
    if path in OPEN or path.startswith(OPEN_FOLDER):
        return None
    if any(path == each or path.startswith(f"{each}/") for each in ADMINS):
        return "admin"
    return "viewer" if method in READING else CHANGING.get((method, path), "admin")
