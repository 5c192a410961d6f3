"""Mutants of control: consent, and every check between a person's decision and its effect."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_CONTROL = "collector/adsum_collector/control"
_ACTIONS = f"{_CONTROL}/actions.py"
_CONSENT = f"{_CONTROL}/consent.py"
_HOLDS = f"{_CONTROL}/holds.py"
_POLICY = f"{_CONTROL}/policy.py"
_REMOTE = f"{_CONTROL}/remote.py"
_SUSPENDING = f"{_CONTROL}/suspending.py"
_ACTING = "collector/adsum_collector/agents/claude_code/acting.py"
_COMMANDS = "shared/adsum_shared/commands.py"
_PAGE = "hub/adsum_hub/web/control/state.js"

_SIGNED = "tests/unit/shared/test_commands.py"
_CORE = "tests/unit/collector/test_holds.py"
_HELD = "tests/unit/hub/test_held.py"
_MACHINE = "tests/unit/collector/test_remote_control.py"
_RULES = "tests/unit/collector/test_policy.py"
_SOUND = "tests/unit/collector/test_acting.py::test_what_is_not_sound_is_refused_and_not_sent"
_WORDS = "tests/unit/collector/test_acting.py"
_DOING = "tests/unit/collector/test_actions.py"
_AGREED = "tests/unit/collector/test_consent.py"
_SUSPENDED = "tests/unit/collector/test_suspending.py"
_DECIDING = "tests/browser/test_deciding.py"
_CLI = "tests/integration/test_cli_decide.py"

MUTANTS = (
    Mutant(
        "Without consent, no decision has an effect.",
        (
            Edit(_REMOTE, "RemoteControl._decided", "self.is_on()", "True"),
            Edit(_REMOTE, "RemoteControl._carry_out", "self.is_on()", "True"),
        ),
        (f"{_MACHINE}::test_a_command_that_comes_when_control_has_ended_is_refused",),
    ),
    Mutant(
        "Consent that ends counts for what still waits.",
        (Edit(_ACTIONS, "Actions._require_full", "self._consent.level != 'full'", "False"),),
        (f"{_DOING}::test_consent_that_ends_meanwhile_counts",),
    ),
    Mutant(
        "A consent that others can read or write does not count.",
        (Edit(_CONSENT, "read_consent", "os.fstat(...).st_mode & ...", "False"),),
        (f"{_AGREED}::test_what_nobody_agreed_to_is_off",),
    ),
    Mutant(
        "An entry dated ahead ends no control.",
        (Edit(f"{_CONTROL}/feed.py", "_is_ahead", "bool(now_ms) and ...", "False"),),
        ("tests/unit/collector/test_feed.py::test_an_entry_dated_ahead_moves_no_cursor",),
    ),
    Mutant(
        "A command that was read in time is not reported as expired.",
        (Edit(_REMOTE, "RemoteControl.expire", "command.id not in self._read", "True"),),
        (f"{_MACHINE}::test_a_command_that_was_read_in_time_is_not_reported_as_expired",),
    ),
    Mutant(
        "A command is as old as it is when it is obeyed, also where the collector was stopped meanwhile.",
        (
            Edit(
                f"{_CONTROL}/feed.py",
                "CommandFeed._follow",
                "(await line.ask(host_id, KeysRequest(commands=''))).now_ms",
                "now_ms",
            ),
        ),
        (
            "tests/unit/collector/test_feed.py"
            "::test_what_lay_in_a_stopped_process_is_as_old_as_it_is",
        ),
    ),
    Mutant(
        "A form is held for five minutes at most, whoever looks at it.",
        (Edit(_HOLDS, "Holds.extend", "min(now + LEASE_S, held.latest)", "now + LEASE_S"),),
        (f"{_CORE}::test_a_form_is_held_while_somebody_looks_at_it_and_at_most_so_long",),
    ),
    Mutant(
        "A prompt that is typed brings a form to its terminal.",
        (Edit(_HOLDS, "_reason", "held.asked.hidden or ...", "child is not None"),),
        (f"{_CORE}::test_what_ends_a_request_and_what_does_not",),
    ),
    Mutant(
        "A frozen collector keeps a form from its terminal for minutes only.",
        (
            Edit(
                "collector/adsum_collector/agents/claude_code/settings_text.py",
                "entry_for",
                "event == FORMS",
                "False",
            ),
        ),
        (
            "tests/unit/cli/test_doctor_hooks.py"
            "::test_a_form_that_may_wait_for_longer_than_the_setting_says_is_a_fault",
        ),
    ),
    Mutant(
        "A line of the trail holds what the collector wrote and nothing else.",
        (Edit(_CONSENT, "check_trail", "msgspec.json.encode(line) + ... != raw", "False"),),
        (
            "tests/unit/collector/test_trail.py"
            "::test_a_line_that_holds_more_than_was_written_breaks_the_chain",
        ),
    ),
    Mutant(
        "Consent ends on time though the clock is set back.",
        (Edit(_CONSENT, "LiveConsent.level", "self._timer() >= ...", "False"),),
        (f"{_AGREED}::test_it_ends_while_the_collector_runs_whatever_the_clock_on_the_wall_says",),
    ),
    Mutant(
        "Without consent, the collector does not subscribe to Codex's requests.",
        (
            Edit(
                "collector/adsum_collector/agents/codex/requests.py",
                "SharedRequests.follow",
                "desk.is_on()",
                "True",
            ),
        ),
        (
            "tests/unit/collector/test_codex_control.py"
            "::test_with_control_off_the_server_is_asked_what_it_always_was",
        ),
    ),
    Mutant(
        "Hooks that a user removed stay removed.",
        (Edit("cli/adsum/hooks.py", "mend", "not installed", "False"),),
        (
            "tests/unit/cli/test_mending.py"
            "::test_what_was_never_installed_or_taken_out_by_adsum_stays_out",
        ),
    ),
    Mutant(
        "A command needs the signature of a trusted hub.",
        (Edit(_COMMANDS, "opened", "key.verify(...)", "None"),),
        (f"{_SIGNED}::test_a_changed_or_missing_field_is_refused",),
    ),
    Mutant(
        "A command counts on its own machine only.",
        (
            Edit(_COMMANDS, "opened", "command.host_id != ...", "False"),
            Edit(
                _COMMANDS,
                "opened",
                "_covered(...)",
                "_covered(msgspec.json.decode(raw)['host_id'], raw)",
            ),
        ),
        (f"{_SIGNED}::test_a_command_for_another_machine_is_refused",),
    ),
    Mutant(
        "A command expires.",
        (Edit(_COMMANDS, "opened", "age_ms > most_ms", "False"),),
        (f"{_SIGNED}::test_a_command_out_of_its_time_is_refused",),
    ),
    Mutant(
        "A command for an earlier run of the collector has no effect.",
        (Edit(_REMOTE, "RemoteControl.obey", "command.run != ...", "False"),),
        (f"{_MACHINE}::test_what_was_given_to_a_collector_before_this_one_is_not_obeyed",),
    ),
    Mutant(
        "A command counts once.",
        (
            Edit(_HOLDS, "Holds.decide", "command.id in self._used", "False"),
            Edit(f"{_CONTROL}/queue.py", "PromptQueue.use", "command_id in self._used", "False"),
        ),
        (
            f"{_CORE}::test_a_command_is_used_once_even_if_it_was_refused",
            f"{_DOING}::test_a_command_is_obeyed_once_also_across_a_restart",
        ),
    ),
    Mutant(
        "A decision is for what was shown.",
        (Edit(_HOLDS, "Holds.decide", "_is_bound(...)", "True"),),
        (f"{_CORE}::test_what_does_not_fit_leaves_it_open",),
    ),
    Mutant(
        "What stands in the stream allows nothing.",
        (Edit(_HOLDS, "_is_bound", "command.verb in REFUSING or ...", "True"),),
        (f"{_CORE}::test_the_requests_own_binding_denies_and_never_allows",),
    ),
    Mutant(
        "A hub binds what it displays, not what a machine's stream says it binds.",
        (Edit("hub/adsum_hub/views.py", "hold_view", "binding_of(...)", "hold.binding"),),
        (f"{_HELD}::test_what_was_written_over_a_request_binds_to_what_it_shows",),
    ),
    Mutant(
        "A request of a collector that is too old is not allowed from elsewhere.",
        (Edit("hub/adsum_hub/views.py", "hold_view", "hold.version < HOLD_VERSION", "False"),),
        (f"{_HELD}::test_what_a_collector_binds_that_is_too_old_can_be_denied_and_not_allowed",),
    ),
    Mutant(
        "A request expires.",
        (Edit(_HOLDS, "Holds.decide", "now >= held.until", "False"),),
        (f"{_CORE}::test_nothing_is_decided_after_its_time",),
    ),
    Mutant(
        "A request takes only the decisions that it offers.",
        (
            Edit(_HOLDS, "Holds.decide", "command.verb not in asked.verbs", "False"),
            Edit(_ACTING, "answer_of", "command.verb not in asked.verbs", "False"),
        ),
        (_SOUND,),
    ),
    Mutant(
        "A request closes when the terminal answers it.",
        (Edit(_HOLDS, "_reason", "signal.tool_use_id == held.tool_use_id", "False"),),
        (f"{_CORE}::test_what_ends_a_request_and_what_does_not",),
    ),
    Mutant(
        "The agent's own record says what a decision did.",
        (Edit(_HOLDS, "Holds._effect", "ours and ...", "True"),),
        (f"{_CORE}::test_what_came_of_a_decision_is_what_the_agent_wrote",),
    ),
    Mutant(
        "What is shown masked cannot be allowed.",
        (Edit(_REMOTE, "RemoteControl._as_shown", "(..., ..., ...) == ...", "True"),),
        (f"{_MACHINE}::test_what_is_not_shown_whole_cannot_be_allowed",),
    ),
    Mutant(
        "A decision that the audit log cannot record has no effect.",
        (Edit(_REMOTE, "RemoteControl._carry_out", "await self._written(...)", "''"),),
        (f"{_MACHINE}::test_without_a_trail_nothing_is_decided",),
    ),
    Mutant(
        "Where two persons are needed, one alone neither decides nor prompts.",
        (
            Edit(_HOLDS, "Holds.decide", "self._require_others(...)", "None"),
            Edit(_REMOTE, "RemoteControl._act", "await self.require_prompting(...)", "None"),
        ),
        (
            f"{_MACHINE}::test_where_two_persons_are_needed_one_alone_allows_nothing",
            f"{_MACHINE}::test_nobody_alone_prompts_a_session_in_which_two_decide",
        ),
    ),
    Mutant(
        "Rules that cannot be read, or that others may write, allow nothing.",
        (
            Edit(_REMOTE, "RemoteControl._decided", "fault and ...", "False"),
            Edit(_POLICY, "read_policy", "found.st_mode & ...", "False"),
        ),
        (
            f"{_MACHINE}::test_where_rules_cannot_be_read_nothing_is_allowed_but_may_be_denied",
            f"{_RULES}::test_a_file_that_others_may_write_holds_no_rule",
        ),
    ),
    Mutant(
        "A rule on trial decides nothing.",
        (Edit(_POLICY, "Policy._judged", "not rule.dry_run", "True"),),
        (f"{_RULES}::test_the_first_rule_that_fits_decides_and_a_dry_one_only_is_tried",),
    ),
    Mutant(
        "The hub's own machine is no second person.",
        (Edit(_HOLDS, "Holds._require_others", "command.by == MACHINE", "False"),),
        (f"{_MACHINE}::test_the_hubs_own_machine_is_no_second_person",),
    ),
    Mutant(
        "Two persons decide wherever the session has worked, and where nobody knows.",
        (Edit(_REMOTE, "RemoteControl._cwds_of", "0 < len(places) < MOST_CWDS", "True"),),
        (f"{_MACHINE}::test_the_strictest_of_all_places_says_how_many_decide",),
    ),
    Mutant(
        "A hub without sign-in signs nothing.",
        (Edit("hub/adsum_hub/command_keys.py", "CommandKeys.own", "not self.signs", "False"),),
        (f"{_CLI}::test_a_hub_without_sign_in_signs_nothing_and_is_not_trusted",),
    ),
    Mutant(
        "A command that an agent runs decides nothing.",
        (Edit("cli/adsum/decide.py", "give", "agent is not None", "False"),),
        (f"{_CLI}::test_what_an_agent_runs_decides_nothing",),
    ),
    Mutant(
        "A rule does not allow a command with shell syntax.",
        (Edit(_POLICY, "words_of", "not _PLAIN.fullmatch(...)", "False"),),
        (f"{_RULES}::test_a_command_that_says_more_than_words_is_no_rules",),
    ),
    Mutant(
        "Keys go only to the process of the session.",
        (Edit(f"{_CONTROL}/seats.py", "_is_ours", "process.is_same(...)", "True"),),
        (f"{_DOING}::test_a_process_id_that_another_program_bears_by_now_is_not_the_sessions",),
    ),
    Mutant(
        "Escape is pressed only in a session that works.",
        (Edit(_ACTIONS, "Actions._interrupt", "seat.status != 'busy'", "False"),),
        (f"{_DOING}::test_an_interrupt_is_refused_where_escape_would_do_something_else",),
    ),
    Mutant(
        "Enter is not pressed if the session left its prompt.",
        (
            Edit(
                f"{_CONTROL}/terminal.py",
                "type_prompt",
                "... or not rests()",
                "not typing.holds(typed)",
            ),
        ),
        ("tests/unit/collector/test_terminal.py::test_what_came_in_between_is_not_submitted",),
    ),
    Mutant(
        "A prompt is never a command of the terminal.",
        (Edit(_ACTING, "require_prompt", "text.lstrip()[:1] in ...", "False"),),
        (f"{_WORDS}::test_what_the_terminal_takes_for_a_command_is_no_prompt",),
    ),
    Mutant(
        "A session that works is not suspended.",
        (Edit(_SUSPENDING, "Suspender._require_rest", "entry.status != 'idle'", "False"),),
        (f"{_SUSPENDED}::test_no_process_is_ended_but_one_that_rests",),
    ),
    Mutant(
        "A session that runs is not resumed a second time.",
        (Edit(_SUSPENDING, "Suspender._take_up", "await self.sleeps(...)", "True"),),
        (f"{_SUSPENDED}::test_what_lives_is_not_started_twice",),
    ),
    Mutant(
        "A resumed session does not bypass permissions.",
        (Edit(_ACTING, "run_words", "lost = ...", "flags += words[at:end]"),),
        (f"{_WORDS}::test_a_bypass_is_never_repeated_and_that_is_said",),
    ),
    Mutant(
        "The page ignores a press on a request that has just appeared.",
        (Edit(_PAGE, "", 'standing.has(row) && row.dataset.ready === "true"', "true"),),
        (f"{_DECIDING}::test_a_press_on_what_has_only_just_come_decides_nothing",),
    ),
    Mutant(
        "Leaving the page cancels a decision that could still be undone.",
        (Edit(_PAGE, "", 'document.visibilityState === "hidden" && leave()', "false"),),
        (f"{_DECIDING}::test_leaving_the_page_cancels_what_could_still_be_taken_back",),
    ),
)
