"""Mutants of what people decide about sessions."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_CONTROL = "hub/adsum_hub/control.py"
_DISMISSALS = "hub/adsum_hub/rest/roster.py"
_HOOKS = "cli/adsum/hooks.py"
_JUDGE = "hub/adsum_hub/verdict/judge.py"
_MENDING = "tests/unit/cli/test_mending.py"
_PAST = "hub/adsum_hub/past.py"
_REVIEW = "tests/unit/hub/verdict/test_review.py"
_TESTS = "tests/integration/test_dismissals.py"

MUTANTS = (
    Mutant(
        "hides a dialog that only the registry knows",
        "a dismissed session waits for a human, and nobody sees it",
        (Edit(_PAST, "return max(facts.moved, facts.engaged)", "return facts.moved"),),
        (f"{_TESTS}::test_a_dialog_that_only_the_registry_knows_ends_it",),
    ),
    Mutant(
        "takes whatever follows an archived session for its end",
        "an archived session that was worked in stays away from the list",
        (Edit(_PAST, ">= max(doings, default=0)", ""),),
        (f"{_TESTS}::test_its_end_does_not_bring_an_archived_session_back",),
    ),
    Mutant(
        "goes on to review what a human has answered",
        "each session awaits review for ever after its first commit",
        (Edit(_JUDGE, "if at <= ground.turns.typed_at:", "if False:"),),
        (f"{_REVIEW}::test_the_next_prompt_ends_it_and_a_background_task_does_not",),
    ),
    Mutant(
        "mends hooks that were taken out on purpose",
        "whoever removes them finds them again a minute later",
        (
            Edit(
                _HOOKS,
                "if not installed or setup.parked.exists() or setup.is_complete():",
                "if setup.is_complete():",
            ),
        ),
        (f"{_MENDING}::test_what_was_never_installed_or_taken_out_by_adsum_stays_out",),
    ),
    Mutant(
        "dismisses as of now",
        "a permission that was asked just before, and is on its way, stays hidden",
        (Edit(_DISMISSALS, "at, happened(facts))", "at, at)"),),
        (
            f"{_TESTS}::test_what_happened_before_the_decision_and_comes_after_it_has_been_seen_by_nobody",
        ),
    ),
    Mutant(
        "lets an earlier decision win",
        "what one hub took back stays dismissed at another",
        (Edit("hub/adsum_hub/roster.py", "held[session_id].at >= told.at", "session_id in held"),),
        (f"{_TESTS}::test_another_hub_learns_of_each_decision",),
    ),
    Mutant(
        "trusts Redis to keep what was dismissed",
        "after a wipe the next hub that starts calls for humans again",
        (
            Edit(
                _DISMISSALS,
                "(known := stored.get(key)) is None or known.at < told.at",
                "False",
            ),
        ),
        (f"{_TESTS}::test_a_redis_that_was_wiped_is_told_anew",),
    ),
    Mutant(
        "refuses a second answer of one of two persons by its verb alone",
        "two who first answer differently can never agree",
        (Edit(_CONTROL, 'if asked.verb not in ("allow", "always"):', "if False:"),),
        (
            "tests/integration/test_decisions.py::"
            "test_who_comes_round_to_the_answer_of_the_other_is_heard_again",
        ),
    ),
)
