"""Mutants of the rules by which a session's state calls a person, or does not."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_GROUND = "hub/adsum_hub/verdict/ground.py"
_READING = "hub/adsum_hub/verdict/reading.py"
_RULES = "hub/adsum_hub/verdict/rules.py"

_VERDICT = "tests/unit/hub/verdict"
_REGISTRY = f"{_VERDICT}/test_registry_rules.py"
_SILENCE = f"{_VERDICT}/test_silence.py"

MUTANTS = (
    Mutant(
        "A state changes by itself when its time is over.",
        (Edit(_READING, "Clock.passed", "self.until = at", "pass"),),
        (f"{_VERDICT}/test_until.py::test_nothing_changes_before_until",),
    ),
    Mutant(
        "An error stays an error in silence.",
        (Edit(_RULES, "open_turn", "found if ... else still", "still"),),
        (f"{_SILENCE}::test_an_error_outlives_silence_with_its_cause_its_urgency_and_its_mark",),
    ),
    Mutant(
        "A process that stands still is no sign of life.",
        (Edit("hub/adsum_hub/fold/fold.py", "_evidence", "kind is not s.ProcessStill", "True"),),
        (f"{_SILENCE}::test_a_look_at_a_process_is_no_sign_of_life_and_may_come_late",),
    ),
    Mutant(
        "A dialog ends the dismissal of its session.",
        (Edit("hub/adsum_hub/past.py", "happened", "max(...)", "facts.moved"),),
        (
            "tests/integration/test_dismissals.py"
            "::test_a_dialog_that_only_the_registry_knows_ends_it",
        ),
    ),
    Mutant(
        "The next prompt ends a review.",
        (Edit("hub/adsum_hub/verdict/judge.py", "review", "at <= ...", "False"),),
        (
            f"{_VERDICT}/test_review.py"
            "::test_the_next_prompt_ends_it_and_a_background_task_does_not",
        ),
    ),
    Mutant(
        "A suspended session that its user resumed and left has ended.",
        (Edit(_RULES, "suspended", "max(...)", "opened"),),
        (
            f"{_VERDICT}/test_states.py"
            "::test_a_suspended_session_that_was_resumed_and_left_has_ended",
        ),
    ),
    Mutant(
        "A question waits behind a running command.",
        (Edit(_GROUND, "unclosed_of", "waits_its_turn(...)", "False"),),
        (
            f"{_VERDICT}/test_calls_of_one_answer.py"
            "::test_a_permission_stands_before_the_question_behind_it",
        ),
    ),
    Mutant(
        "The idle of the turn before does not end a new prompt.",
        (
            Edit(
                _READING,
                "closed_since",
                "limits.registry_late if ... else ...",
                "limits.registry_hold",
            ),
        ),
        (f"{_REGISTRY}::test_idle_of_the_turn_before_ends_a_prompt_once_its_busy_must_have_come",),
    ),
    Mutant(
        "A request that our hook holds shows before its dialog.",
        (Edit(_READING, "masked", "not request.hold", "True"),),
        (f"{_REGISTRY}::test_what_a_hook_of_ours_holds_is_asked_before_any_dialog",),
    ),
    Mutant(
        "A network dialog outlives its turn.",
        (Edit(_READING, "_cancelled", "status.waiting_for not in UNHOOKED", "True"),),
        (f"{_REGISTRY}::test_a_dialog_without_a_hook_shows_at_once_and_outlives_its_turn",),
    ),
    Mutant(
        "The list of background work does not keep a resting team mate.",
        (
            Edit(
                "hub/adsum_hub/fold/work.py",
                "turn_ended",
                "entry.status == s.MATE_LISTED",
                "False",
            ),
        ),
        (
            f"{_VERDICT}/test_teams.py::test_a_list_that_names_no_mate_ends_it_and_one_that_does_keeps_it",
        ),
    ),
    Mutant(
        "A process in reserve is no session.",
        (Edit("hub/adsum_hub/facts.py", "Facts.materialised", "not reserve", "True"),),
        (
            "tests/unit/hub/fold/test_fold.py"
            "::test_a_process_in_reserve_is_no_session_until_the_registry_names_one",
        ),
    ),
    Mutant(
        "A request of a closed terminal is void.",
        (Edit(_GROUND, "run_began", "max([launched, *over])", "launched"),),
        (
            f"{_VERDICT}/test_composite.py"
            "::test_what_the_closed_terminal_asked_is_void_where_another_has_taken_the_session_up",
        ),
    ),
    Mutant(
        "A permission belongs to the call that asks for it, not to one that ended.",
        (Edit("hub/adsum_hub/fold/work.py", "bind", "0 < tool.posted < ... and ...", "False"),),
        (
            "tests/unit/hub/fold/test_fold.py"
            "::test_a_request_is_of_its_call_although_its_hook_overtakes_that_of_the_call",
        ),
    ),
    Mutant(
        "A turn of Codex ends after the user's own hooks.",
        (
            Edit(
                "collector/adsum_collector/agents/codex/agent.py",
                "Codex.hook",
                "known.turn == told.get(...)",
                "False",
            ),
        ),
        (
            "tests/unit/collector/test_codex.py"
            "::test_a_turn_whose_lines_are_read_is_over_when_the_users_own_hooks_have_run",
        ),
    ),
)
