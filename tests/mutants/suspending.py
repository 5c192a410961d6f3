"""Mutants of suspending: what keeps the wrong process, or one at work, from being ended."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_SUSPENDING = "collector/adsum_collector/control/suspending.py"
_RESUMPTION = "collector/adsum_collector/agents/claude_code/resumption.py"
_VERDICT = "hub/adsum_hub/verdict/rules.py"

_UNIT = "tests/unit/collector/test_suspending.py"
_REST = f"{_UNIT}::test_no_process_is_ended_but_one_that_rests"
_WORDS = "tests/unit/collector/test_resumption.py"

MUTANTS = (
    Mutant(
        "ends a session that works",
        "a tool that runs is lost",
        (Edit(_SUSPENDING, 'if entry.status != "idle":', "if False:"),),
        (_REST,),
    ),
    Mutant(
        "ends whoever bears the process id by now",
        "a program that has nothing to do with it is ended",
        (
            Edit(
                _SUSPENDING,
                ' and fields[18].decode() == entry.start',
                "",
            ),
        ),
        (_REST,),
    ),
    Mutant(
        "does not look again before it ends it",
        "a prompt that was just sent is lost",
        (Edit(_SUSPENDING, "if again is None or again.entry != found.entry:", "if again is None:"),
         Edit(_SUSPENDING, "            self._require_rest(again)\n", "")),
        (f"{_UNIT}::test_what_begins_while_it_is_looked_at_is_seen",),
    ),
    Mutant(
        "loses a draft",
        "what stands at the prompt, unsent, is gone",
        (Edit(_SUSPENDING, "        if typed:\n", "        if False:\n"),),
        (f"{_UNIT}::test_a_draft_at_the_prompt_is_not_lost",),
    ),
    Mutant(
        "ends what could not come back",
        "a session in which nothing was said is gone",
        (Edit(_SUSPENDING, "if not found.agent.has_conversation(", "if False and not found.agent.has_conversation("),),
        (f"{_UNIT}::test_a_session_in_which_nothing_was_said_could_not_come_back",),
    ),
    Mutant(
        "starts what lives a second time",
        "two processes write one conversation",
        (Edit(_SUSPENDING, "        if not await self.sleeps(session_id):\n", "        if False:\n"),),
        (f"{_UNIT}::test_what_lives_is_not_started_twice",),
    ),
    Mutant(
        "repeats the bypass",
        "what asked for nothing once asks for nothing from elsewhere",
        (Edit(_RESUMPTION, "        elif flag in _AGAIN:\n", "        if flag in (*_AGAIN, *_BYPASS):\n"),),
        (f"{_WORDS}::test_a_bypass_is_never_repeated_and_that_is_said",),
    ),
    Mutant(
        "passes over flags that it does not know",
        "what restricted a session does so no more",
        (
            Edit(
                _RESUMPTION,
                '            raise NotObeyedError(f"it was started with {flag[:40]}, which is not known here")\n',
                "            at += 1\n            continue\n",
            ),
        ),
        (f"{_WORDS}::test_a_flag_that_nobody_knows_may_restrict",),
    ),
    Mutant(
        "calls suspended what its user has ended since",
        "the list offers to resume what somebody closed",
        (Edit(_VERDICT, "max(opened, facts.resumed, began)", "opened"),),
        (
            "tests/unit/hub/verdict/test_states.py::test_a_suspended_session_that_was_resumed_and_left_has_ended",
        ),
    ),
)  # fmt: skip
