"""Mutants of suspending: what keeps the wrong process, or one at work, from being ended."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_SUSPENDING = "collector/adsum_collector/control/suspending.py"
_ACTING = "collector/adsum_collector/agents/claude_code/acting.py"
_VERDICT = "hub/adsum_hub/verdict/rules.py"

_UNIT = "tests/unit/collector/test_suspending.py"
_REST = f"{_UNIT}::test_no_process_is_ended_but_one_that_rests"
_WORDS = "tests/unit/collector/test_acting.py"

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
        (Edit(_SUSPENDING, "            await self._require_unchanged(found)\n            await self._intakes", "            await self._intakes"),
         Edit(_SUSPENDING, "            await self._require_unchanged(found)\n        except", "        except")),
        (f"{_UNIT}::test_what_begins_while_it_is_looked_at_is_seen",),
    ),
    Mutant(
        "believes what it saw before it was told",
        "a turn that began while the disk was busy is lost",
        (Edit(_SUSPENDING, "            await self._require_unchanged(found)\n        except", "        except"),),
        (f"{_UNIT}::test_a_turn_that_begins_while_it_is_told_is_not_ended",),
    ),
    Mutant(
        "loses what was typed while it was told",
        "what stands at the prompt, unsent, is gone",
        (Edit(_SUSPENDING, "            await self._require_empty_box(found)\n            await", "            await"),),
        (f"{_UNIT}::test_a_draft_that_is_typed_while_it_is_told_is_not_lost",),
    ),
    Mutant(
        "ends by rest what it has not heard from its begin on",
        "a wake-up that was due before a restart is lost",
        (Edit(_SUSPENDING, " if int(each.start) >= self._since", ""),),
        (f"{_UNIT}::test_who_began_before_the_collector_is_not_ended_by_rest",),
    ),
    Mutant(
        "ends its patrol at whatever another program wrote",
        "one odd file ends the collector, again and again",
        (Edit("collector/adsum_collector/control/suspend_verbs.py", "except Exception:", "except OSError:"),),
        ("tests/unit/collector/test_suspend_verbs.py::test_a_look_that_fails_ends_no_patrol",),
    ),
    Mutant(
        "believes a name",
        "who calls himself so is told as the machine's own rule",
        (
            Edit(
                "collector/adsum_collector/control/suspend_verbs.py",
                "auto = command.id == self._own",
                "auto = command.by == BY_REST",
            ),
        ),
        ("tests/unit/collector/test_suspend_verbs.py::test_a_person_of_that_name_is_no_rule",),
    ),
    Mutant(
        "looks into no file of settings",
        "what asked for nothing once asks for nothing from elsewhere",
        (Edit(_ACTING, "    if _BYPASS_MODE in said:", "    if False:"),),
        (f"{_WORDS}::test_files_are_looked_into_for_a_bypass",),
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
        (Edit(_ACTING, "        elif flag in _AGAIN:\n", "        if flag in (*_AGAIN, *_BYPASS):\n"),),
        (f"{_WORDS}::test_a_bypass_is_never_repeated_and_that_is_said",),
    ),
    Mutant(
        "passes over flags that it does not know",
        "what restricted a session does so no more",
        (
            Edit(
                _ACTING,
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
