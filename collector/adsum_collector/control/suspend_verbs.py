"""Suspends and resumes where people elsewhere, or a long rest, want it."""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
import sys
from typing import Final

import msgspec

from adsum_collector.control.actions import Actions, Obey
from adsum_collector.control.consent import LiveConsent
from adsum_collector.control.policy import LivePolicy
from adsum_collector.control.suspending import Suspender
from adsum_shared.commands import Command, NotObeyedError
from adsum_shared.people import BY_REST

log = logging.getLogger(__name__)

#: Between two looks for sessions that have rested for too long.
PATROL_S: Final = 10.0
#: One that could not be ended is looked at again after this.
TRY_AGAIN_S: Final = 60.0


class SuspendVerbs:
    """What people elsewhere, or long rest, have done with the suspender. Puts its verbs into `actions`.

    policy: after how long a rest. A message to a suspended session resumes it.
    """

    def __init__(
        self, suspender: Suspender, actions: Actions, consent: LiveConsent, policy: LivePolicy
    ) -> None:
        self._suspender, self._actions = suspender, actions
        self._consent, self._policy = consent, policy
        #: session -> when it was tried in vain, s, and by which command, which stands in the trail
        #: once: a draft may stand there for days
        self._tried: dict[str, tuple[float, Command]] = {}
        #: the id of the patrol's own command: a name anybody may bear
        self._own = ""
        actions.listeners.append(suspender.hear)
        actions.verbs |= {"suspend": self._suspend, "resume": self._resume}
        for verb in ("prompt", "queue"):
            say = actions.verbs.get(verb, _say_nothing)
            actions.verbs[verb] = functools.partial(self._say, say)

    async def _suspend(self, command: Command) -> None:
        auto = command.id == self._own
        try:
            said = await self._suspender.suspend(command.session_id, command.by, auto=auto)
        except (NotObeyedError, OSError) as error:
            if not auto:
                raise
            log.debug("%s is not suspended: %s", command.session_id, error)
        else:
            self._actions.reports.report(command, "took_effect", said)

    async def _resume(self, command: Command) -> None:
        await self._actions.reports.require_prompting(command)  # it may have waited for long
        said = await self._suspender.resume(command.session_id, command.text)
        self._actions.reports.report(command, "took_effect", said)

    async def _say(self, say: Obey, command: Command) -> None:
        if await self._suspender.sleeps(command.session_id):
            await self._resume(command)
        else:
            await say(command)

    async def run(self) -> None:
        """Until cancelled. A look that fails is logged: what others' files hold must not end us."""
        do = self._suspender.sweep
        while True:
            try:
                await asyncio.to_thread(do)
                if self._consent.level == "full" and sys.platform == "linux":
                    await self._look()
            except Exception:
                log.exception("it could not be looked for sessions that rest")
            do = self._suspender.tidy
            await asyncio.sleep(PATROL_S)

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        policy = self._policy.current
        rested = await asyncio.to_thread(self._suspender.rested, policy.rest_ms)
        self._tried = {each: at for each, at in self._tried.items() if each in rested}
        for session_id in rested:
            tried, command = self._tried.get(session_id) or (now - TRY_AGAIN_S, None)
            if now - tried < TRY_AGAIN_S:
                continue
            if command is None:
                about = {"host_id": "", "session_id": session_id, "verb": "suspend"}
                fields = {"id": secrets.token_hex(16), "by": BY_REST, **about}
                command = msgspec.convert(fields, Command)
                try:
                    await self._actions.reports.write_down(command)
                except OSError as error:
                    log.warning(
                        "%s is not suspended: the trail cannot be written: %s", session_id, error
                    )
                    continue
            self._tried[session_id] = now, command
            self._own = command.id
            await self._actions.obey(command)


async def _say_nothing(command: Command) -> None:
    raise NotObeyedError(f"this machine's collector cannot `{command.verb}` yet")
