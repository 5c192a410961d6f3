"""Guards of the verdict, and of whose words it goes by: what calls a human for nothing, or late."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_DOMAINS = "hub/adsum_hub/domains/show.py"
_GROUND = "hub/adsum_hub/verdict/ground.py"
_READING = "hub/adsum_hub/verdict/reading.py"
_PROCESSES = "collector/adsum_collector/processes.py"
_TERMINALS = "tests/unit/collector/test_terminals.py"
_WORK = "hub/adsum_hub/fold/work.py"
_OVERTAKEN = (
    "tests/unit/hub/fold/test_fold.py::"
    "test_a_request_is_of_its_call_although_its_hook_overtakes_that_of_the_call"
)

MUTANTS = (
    Mutant(
        "calls for a question that is behind a command",
        "people are called as long as the command runs, to a screen that asks nothing",
        (Edit(_GROUND, "    if len(tools) > 1 and found:\n", "    if False:\n"),),
        (
            "tests/unit/hub/verdict/test_calls_of_one_answer.py"
            "::test_a_permission_stands_before_the_question_behind_it",
        ),
    ),
    Mutant(
        "ends a prompt by the idle of the turn before",
        "on a loaded machine every other prompt shows as idle for a moment",
        (
            Edit(
                _READING,
                "    late = limits.registry_late if before else limits.registry_hold\n",
                "    late = limits.registry_hold\n",
            ),
        ),
        (
            "tests/unit/hub/verdict/test_registry_rules.py"
            "::test_idle_of_the_turn_before_ends_a_prompt_once_its_busy_must_have_come",
        ),
    ),
    Mutant(
        "calls for a dialog while the user's own hook decides in its place",
        "people are called to a screen that asks nothing",
        (Edit(_READING, "        if status.dialogs and not", "        if False and not"),),
        (
            "tests/unit/hub/verdict/test_registry_rules.py"
            "::test_where_all_dialogs_are_told_of_one_is_asked_once_it_is_on_the_screen",
        ),
    ),
    Mutant(
        "hides what is held for people elsewhere until a dialog is there",
        "nobody can answer a subagent from elsewhere: its dialog comes after the hook",
        (Edit(_READING, " <= asked and not request.hold:", " <= asked:"),),
        (
            "tests/unit/hub/verdict/test_registry_rules.py"
            "::test_what_a_hook_of_ours_holds_is_asked_before_any_dialog",
        ),
    ),
    Mutant(
        "hides what is held of a subagent's once another dialog was answered",
        "the agent waits for somebody whom nobody calls",
        (
            Edit(
                _READING,
                " or (request.hold and request.agent_id is not None):",
                ":",
            ),
        ),
        (
            "tests/unit/hub/verdict/test_registry_rules.py"
            "::test_what_a_hook_of_ours_holds_of_a_subagents_no_other_dialog_of_the_registry_ends",
        ),
    ),
    Mutant(
        "shows what a closed terminal asked in the one that took its session up",
        "people are called to a dialog that is on no screen, until the next prompt",
        (Edit(_GROUND, "        launched = max([launched, *over])\n", ""),),
        (
            "tests/unit/hub/verdict/test_composite.py"
            "::test_what_the_closed_terminal_asked_is_void_where_another_has_taken_the_session_up",
        ),
    ),
    Mutant(
        "passes over an end by hook in a terminal that no other one has left",
        "who leaves a new session at once is called to it for ever",
        (Edit("hub/adsum_hub/facts.py", "        return self.heir and at", "        return at"),),
        (f"{_TERMINALS}::test_a_new_session_that_is_left_at_once_is_over",),
    ),
    Mutant(
        "watches whichever terminal of a session speaks last",
        "the end of the one that the hub believes in is told by nobody",
        (
            Edit(
                _PROCESSES,
                "            if held is None or _takes_over(held, found, since):\n",
                "            if True:\n",
            ),
        ),
        (f"{_TERMINALS}::test_the_younger_of_two_is_the_one_whoever_speaks",),
    ),
    Mutant(
        "does not ask at its start which terminals have moved meanwhile",
        "a session that was left while no collector ran waits for its human for ever",
        (
            Edit(
                "collector/adsum_collector/watch.py",
                "        if self.settled.is_set() and not self._told_moves:\n",
                "        if False:\n",
            ),
        ),
        (f"{_TERMINALS}::test_a_session_that_was_left_while_no_collector_ran_is_over",),
    ),
    Mutant(
        "binds a permission to a call that was over long before",
        "a command that is run again asks, and nobody is told or can approve it",
        (Edit(_WORK, "or (0 < tool.posted < at - LATENESS and", "or (False and"),),
        (_OVERTAKEN,),
    ),
    Mutant(
        "binds a permission to a call that was denied in the turn before",
        "a command that is tried again asks, and nobody is told or can approve it",
        (Edit(_WORK, "or (request.agent_id is None and", "or (False and"),),
        (
            "tests/unit/hub/fold/test_fold.py::"
            "test_a_request_is_not_of_the_call_that_was_denied_in_the_turn_before",
        ),
    ),
    Mutant(
        "binds a permission only to a call whose hook was stamped before",
        "it stays open after its answer until the turn is over",
        (Edit(_WORK, "elif tool.hooked <= at + LATENESS and", "elif False and"),),
        (_OVERTAKEN,),
    ),
    Mutant(
        "gives no call the permission that overtook its hook",
        "it stays open after its answer until the turn is over",
        (Edit(_WORK, "if bind(known, request) == tool_use_id:", "if False:"),),
        (
            _OVERTAKEN,
            "tests/unit/hub/fold/test_fold.py::"
            "test_a_request_whose_call_was_over_before_its_own_hook_came_is_closed",
        ),
    ),
    Mutant(
        "shows what domains said of a turn before all of it was heard",
        "the order in which hooks arrive decides whether a session ever says Committed",
        (Edit(_DOMAINS, "self._used.get(view.id, ()) == used and ", ""),),
        (
            "tests/unit/hub/test_domains_calls.py"
            "::test_a_label_is_the_same_whatever_of_the_turn_is_heard_after_its_end",
        ),
    ),
)
