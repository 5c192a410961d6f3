"""What Codex's hooks rest on, each taken out."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_CODEX = "collector/adsum_collector/agents/codex/agent.py"
_INSTALL = "collector/adsum_collector/agents/codex/agent.py"
_SETTINGS = "collector/adsum_collector/agents/settings_file.py"
_SERVER = "collector/adsum_collector/agents/codex/server_status.py"
_METER = "collector/adsum_collector/agents/codex/usage_lines.py"
_THREADS = "collector/adsum_collector/agents/codex/live_threads.py"
_READING = "hub/adsum_hub/verdict/reading.py"
_GUEST = "tests/unit/collector/test_codex_server.py"
_USAGE = "tests/unit/collector/test_codex_usage.py"
_LOCKS = "tests/unit/collector/test_codex_threads.py"
_HOOKS = "tests/unit/collector/test_codex_install.py"

MUTANTS = (
    Mutant(
        "has Codex trust hooks that are not ours",
        "what a user has not looked at yet runs with their rights",
        (Edit(_INSTALL, "trust(app, filter(None, ours.values()))", "trust(app, found.values())"),),
        (f"{_HOOKS}::test_exactly_our_own_entries_are_trusted",),
    ),
    Mutant(
        "leaves the trust of a user's hook where that stood",
        "Codex asks its owner to review again what did not change, and skips it until then",
        (Edit(_INSTALL, "if old != new}", "if old is new}"),),
        (f"{_HOOKS}::test_the_users_hook_behind_ours_stays_trusted_when_ours_go",),
    ),
    Mutant(
        "puts back hooks.json alone when an install of Codex's hooks fails",
        "the hooks that stood there are untrusted, so Codex runs none of them",
        (
            Edit(
                _INSTALL,
                "wanted.state_dir, path, path.with_name(CONFIG))",
                "wanted.state_dir, path)",
            ),
        ),
        (
            f"{_HOOKS}"
            "::test_an_install_that_fails_over_another_leaves_its_hooks_trusted_and_removable",
        ),
    ),
    Mutant(
        "runs the shim of Codex's hooks without looking whether it is there",
        "Python ends with 2, and Codex takes that for a refusal",
        (Edit(_INSTALL, '&& test -r "$3" ', ""),),
        (f"{_HOOKS}::test_a_hook_whose_parts_are_gone_ends_well_and_says_nothing",),
    ),
    Mutant(
        "keeps the receipt of an install that failed",
        "no receipt fits the settings that stay, and removing hooks does not restore them",
        (
            Edit(
                _SETTINGS,
                "        yield\n        undoing.pop_all()\n",
                "        undoing.pop_all()\n        yield\n",
            ),
        ),
        (
            "tests/unit/collector/test_install.py"
            "::test_an_install_that_fails_leaves_the_receipt_of_the_one_before",
        ),
    ),
    Mutant(
        "ends a turn of Codex with the hook on Stop, whatever is read",
        "a session calls for its human while the user's own hooks on the end still run",
        (Edit(_CODEX, 'known.turn == told.get("turn_id")', "False"),),
        (
            "tests/unit/collector/test_codex.py"
            "::test_a_turn_whose_lines_are_read_is_over_when_the_users_own_hooks_have_run",
        ),
    ),
    Mutant(
        "comes to Codex's background server before anybody else",
        "the first to say hello gives the server's sessions its name",
        (
            Edit(
                _SERVER,
                "if pid is not None and has_clients(pid, path) else None",
                "if path else None",
            ),
        ),
        (f"{_GUEST}::test_a_guest_comes_after_others_and_tells_how_things_stand",),
    ),
    Mutant(
        "leaves what is asked open though the server's flag has gone",
        "a session calls for its human for as long as the approved command runs",
        (Edit(_SERVER, "and not status.active_flags:", "and status.active_flags:"),),
        (f"{_GUEST}::test_a_session_works_while_its_subagent_does_and_waits_while_that_asks",),
    ),
    Mutant(
        "takes the idle after a plan for its answer",
        "a plan that is ready shows as an idle session",
        (Edit(_READING, "and not 0 < ground.stand.closed <= request.opened", "and True"),),
        (f"{_GUEST}::test_a_plan_is_ready_though_its_server_calls_it_idle",),
    ),
    Mutant(
        "takes any process below a session for the command that was asked for",
        "an approval that waits is hidden by a server or another command that runs",
        (Edit(_THREADS, "words[-1] == asked.command", "True"),),
        (f"{_LOCKS}::test_the_very_command_that_was_asked_for_was_granted_if_it_runs",),
    ),
    Mutant(
        "takes any line that repeats a response's numbers for its total",
        "a response that used as much as the one before it is in no sum",
        (Edit(_METER, " and raw.find(EVENT, 0, HEAD_BYTES) > 0:", ":"),),
        (f"{_USAGE}::test_two_responses_that_used_the_same_are_two",),
    ),
    Mutant(
        "believes more from the cache than went in",
        "sums hold more tokens than were sent, and fewer than none",
        (Edit(_METER, "if plain < 0:", "if False:"),),
        (f"{_USAGE}::test_no_more_counts_than_went_in",),
    ),
    Mutant(
        "calls the witnesses of several homes alike",
        "of two background servers nobody can tell which one refuses",
        (Edit(_CODEX, 'f" of {shown(each)}" if len(directories) > 1 else ""', '""'),),
        (f"{_LOCKS}::test_of_several_homes_each_witness_names_its_own",),
    ),
)
