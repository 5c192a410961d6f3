"""Suspends and resumes by the names that other dashboards have for it: an agent is a session."""

from dataclasses import dataclass
from typing import Literal

import msgspec
from fastapi import APIRouter, Request

from adsum_hub.control import CommandAsked, CommandTold, Decisions
from adsum_hub.rest.api import (
    REFUSED,
    SCHEMA,
    UNKNOWN,
    BadRequestError,
    add_endpoints,
    endpoint,
)
from adsum_shared.state import Group, SessionView


class ResumeAsked(msgspec.Struct, frozen=True):
    """message: what it is told, as a prompt."""

    message: str | None = None


class Nothing(msgspec.Struct, frozen=True):
    """No more than `{}` is asked for."""


class AgentRuntime(msgspec.Struct, frozen=True):
    """state: `uninitialized`: nobody has heard of it. since: hub clock, ms. session: its id here."""

    schema: int
    id: str
    state: Literal["active", "idle", "suspended", "uninitialized"]
    since: int | None = None
    session: str | None = None


ANSWERS = {**REFUSED, **UNKNOWN, 410: "It is over"}


@dataclass(frozen=True, slots=True)
class AgentEndpoints:
    """agent_id: a session's id, or HOST_ID:SESSION_ID."""

    decisions: Decisions

    @endpoint("GET /agents/{agent_id}", "What an agent is at: active, idle, suspended or unknown")
    async def runtime(self, agent_id: str) -> AgentRuntime:
        view = self._view(agent_id)
        if view is None:
            return AgentRuntime(SCHEMA, agent_id, "uninitialized")
        return AgentRuntime(SCHEMA, agent_id, runtime_state(view), view.state.since, view.id)

    @endpoint("POST /agents/{agent_id}/suspend", "As the command `suspend`", ANSWERS, status=202)
    async def suspend(self, agent_id: str, request: Request, nothing: Nothing) -> CommandTold:
        """Raises BadRequestError."""
        del nothing
        return await self._give(agent_id, request, CommandAsked("suspend"))

    @endpoint("POST /agents/{agent_id}/resume", "As the command `resume`", ANSWERS, status=202)
    async def resume(self, agent_id: str, request: Request, asked: ResumeAsked) -> CommandTold:
        """Raises BadRequestError."""
        return await self._give(agent_id, request, CommandAsked("resume", text=asked.message))

    async def _give(self, agent_id: str, request: Request, asked: CommandAsked) -> CommandTold:
        view = self._view(agent_id)
        if view is None:
            step = "List them at /api/v1/sessions."
            raise BadRequestError(404, f"There is no agent {agent_id[:200]!r}.", step)
        return await self.decisions.give(view.id, request, asked)

    def _view(self, agent_id: str) -> SessionView | None:
        """Raises BadRequestError: several machines have one of this id."""
        views = self.decisions.roster.views
        if agent_id in views:
            return views[agent_id]
        found = [each for each in views.values() if each.session_id == agent_id]
        if len(found) > 1:
            step = "Name it HOST_ID:SESSION_ID."
            raise BadRequestError(409, f"There are {len(found)} agents of this id.", step)
        return found[0] if found else None


def runtime_state(view: SessionView) -> Literal["active", "idle", "suspended"]:
    """Whatever it waits for, an agent that does not work is idle to those who know four states."""
    if view.state.state == "suspended":
        return "suspended"
    return "active" if view.state.group is Group.AUTONOMOUS else "idle"


def agents_router(endpoints: AgentEndpoints) -> APIRouter:
    return add_endpoints(APIRouter(prefix="/api", tags=["agents"]), endpoints)
