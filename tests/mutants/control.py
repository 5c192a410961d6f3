"""Mutants of control: each check that a command passes before it decides anything."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_COMMANDS = "shared/adsum_shared/commands.py"
_HOLDS = "collector/adsum_collector/control/holds.py"
_REMOTE = "collector/adsum_collector/control/remote.py"
_CONSENT = "collector/adsum_collector/control/consent.py"
_FEED = "collector/adsum_collector/control/feed.py"
_ACTIONS = "collector/adsum_collector/control/actions.py"
_SEATS = "collector/adsum_collector/control/seats.py"
_QUEUE = "collector/adsum_collector/control/queue.py"
_TERMINAL = "collector/adsum_collector/control/terminal.py"
_ACTING = "collector/adsum_collector/agents/claude_code/acting.py"
_POLICY = "collector/adsum_collector/control/policy.py"
_PROCESSES = "collector/adsum_collector/processes.py"
_REQUESTS = "collector/adsum_collector/agents/codex/requests.py"
_SHAPES = "collector/adsum_collector/agents/codex/requests.py"
_SHIM = "collector/adsum_collector/shim.py"

_CORE = "tests/unit/collector/test_holds.py"
_MACHINE = "tests/unit/collector/test_remote_control.py"
_RULES = "tests/unit/collector/test_policy.py"
_BODIES = "tests/unit/collector/test_acting.py"
_MANY = "tests/unit/collector/test_control_chaos.py::test_some_random_lives_have_no_unwanted_effect"
_DOING = "tests/unit/collector/test_actions.py"
_SEATED = "tests/unit/collector/test_typed_actions.py"
_TYPING = "tests/unit/collector/test_terminal.py"
_CODEX = "tests/unit/collector/test_codex_control.py"
_FITS = f"{_CORE}::test_what_does_not_fit_leaves_it_open"
_SOUND = f"{_BODIES}::test_what_is_not_sound_is_refused_and_not_sent"
_WHOLE = f"{_MACHINE}::test_what_is_not_shown_whole_cannot_be_allowed"

MUTANTS = (
    Mutant(
        "subscribes to what a server's sessions ask though control is off",
        "who agreed to nothing has another client in each of their sessions",
        (Edit(_REQUESTS, "if desk is not None and desk.is_on() else ()", "if desk else ()"),),
        (f"{_CODEX}::test_with_control_off_the_server_is_asked_what_it_always_was",),
    ),
    Mutant(
        "takes every end of a server's request for its own answer's",
        "somebody is told that they decided what the terminal did",
        (Edit(_REQUESTS, "(not emitted or emitted >= held.given_at)", "True"),),
        (f"{_CODEX}::test_an_answer_after_the_terminals_is_overruled",),
    ),
    Mutant(
        "offers to allow a patch that nobody has seen",
        "files are changed as nobody was shown",
        (Edit(_SHAPES, "if not whole or request.about.grant_root is not None:", "if False:"),),
        (f"{_CODEX}::test_what_is_not_seen_whole_or_grants_more_can_only_be_denied",),
    ),
    Mutant(
        "asks how many must decide when a request comes, and not again",
        "what its owner writes while it is held binds nobody, nor what could not be read then",
        (Edit(_HOLDS, "persons = max(held.persons, least)", "persons = held.persons"),),
        (f"{_MACHINE}::test_what_is_written_while_it_is_held_counts_as_well",),
    ),
    Mutant(
        "counts for a request that has ended meanwhile",
        "the first of two is told to wait for ever",
        (Edit(_REMOTE, "if command.request_id not in self._holds.open:", "if False:"),),
        (f"{_MACHINE}::test_a_request_that_ends_while_it_is_counted_counts_nobody",),
    ),
    Mutant(
        "knows of a session where it was last",
        "who prompts a session that left a place where two decide needs no second",
        (Edit(_REMOTE, "places.add(each.cwd)", "places.clear() or places.add(each.cwd)"),),
        (f"{_MACHINE}::test_nobody_alone_prompts_a_session_that_has_been_where_two_decide",),
    ),
    Mutant(
        "obeys a person called as long rest is",
        "what somebody did is told as done by itself, and its refusal is swallowed",
        (Edit(_REMOTE, "elif by == BY_REST:", "elif False:"),),
        (f"{_MACHINE}::test_nobody_is_called_as_what_decides_by_itself",),
    ),
    Mutant(
        "judges a session that works nowhere",
        "a rule that denies in a directory does not see it, and one after it allows",
        (Edit(_POLICY, 'if asked.role is None or "\\0" in asked.cwd:', "if asked.role is None:"),),
        (f"{_RULES}::test_what_is_no_path_is_no_rules_and_lies_nowhere",),
    ),
    Mutant(
        "takes an address without a host for one",
        "a pattern that names a host ends the hook that asks",
        (Edit(_POLICY, "if not found.netloc or not wanted.netloc:", "if False:"),),
        (f"{_RULES}::test_an_address_without_a_host_is_no_rules",),
    ),
    Mutant(
        "believes the last line of a socket",
        "whoever writes a line into a socket's name has keys typed into a tmux of theirs",
        (Edit(_PROCESSES, "if inode in paths or len(words) == 7", "if len(words) == 7"),),
        (
            "tests/unit/collector/test_processes.py"
            "::test_a_socket_of_which_two_lines_tell_has_no_path",
        ),
    ),
    Mutant(
        "does again what it has done",
        "a prompt that somebody repeats is said twice",
        (Edit(_QUEUE, "if command_id in self._used:", "if False:"),),
        (f"{_DOING}::test_a_command_is_obeyed_once_also_across_a_restart",),
    ),
    Mutant(
        "does what its owner has just forbidden",
        "consent that ends does not count for what waits its turn",
        (Edit(_ACTIONS, 'if self._consent.level != "full":', "if False:"),),
        (f"{_DOING}::test_consent_that_ends_meanwhile_counts",),
    ),
    Mutant(
        "types at whoever bears the process's number now",
        "a prompt goes to another program",
        (
            Edit(
                _SEATS,
                "if started is None or not process.is_same(AgentProcess(process.pid, started)):",
                "if started is None:",
            ),
        ),
        (f"{_DOING}::test_a_process_id_that_another_program_bears_by_now_is_not_the_sessions",),
    ),
    Mutant(
        "speaks to another session's process",
        "after /clear a prompt goes to whoever runs there now",
        (
            Edit(
                _SEATS,
                "if not isinstance(each, StatusReported) or each.session_id != session_id:",
                "if not isinstance(each, StatusReported):",
            ),
        ),
        (f"{_DOING}::test_nothing_is_said_to_whoever_it_is_not",),
    ),
    Mutant(
        "hands over before it is marked so",
        "a collector that is killed just then says it again",
        (
            Edit(
                _ACTIONS,
                'await self._changed(self._queue.mark, awaited.command.id, "sent")',
                "pass",
            ),
        ),
        (f"{_DOING}::test_what_is_handed_over_is_marked_so_on_disk_before",),
    ),
    Mutant(
        "says the next before the turn of the last",
        "what waits is said all at once",
        (Edit(_ACTIONS, "(seat.at <= since and now - since < TAKEN_MS)", "False"),),
        (f"{_DOING}::test_while_it_rests_as_before_the_next_is_not_said",),
    ),
    Mutant(
        "presses Escape at a dialog, or at rest",
        "an interrupt denies what is asked, or opens the menu of rewinding",
        (Edit(_ACTIONS, 'if seat.status != "busy":', "if False:"),),
        (f"{_DOING}::test_an_interrupt_is_refused_where_escape_would_do_something_else",),
    ),
    Mutant(
        "types where no input box is",
        "a text answers a dialog",
        (Edit(_TERMINAL, "if before is None:", "if False:"),),
        (f"{_TYPING}::test_no_key_is_pressed_where_no_box_is",),
    ),
    Mutant(
        "types over somebody",
        "two texts are sent as one",
        (Edit(_TERMINAL, "if keyboard.box(pane.screen()) != before:", "if False:"),),
        (f"{_TYPING}::test_nobody_is_typed_over",),
    ),
    Mutant(
        "presses Enter whatever came in between",
        "it approves the dialog that has just appeared",
        (
            Edit(
                _TERMINAL,
                "_ends_with(typing.box(), typed) or not rests():",
                "_ends_with(typing.box(), typed):",
            ),
        ),
        (f"{_TYPING}::test_what_came_in_between_is_not_submitted",),
    ),
    Mutant(
        "types on whatever comes in between",
        "the rest of a text answers a dialog",
        (
            Edit(
                _TERMINAL,
                "if not _within(DRAWN_S, shows) or not self.rests():",
                "shows()\n        if False:",
            ),
        ),
        (
            f"{_TYPING}::test_a_dialog_that_comes_in_between_gets_no_key",
            f"{_TYPING}::test_of_a_session_that_begins_to_work_the_rest_is_not_typed",
        ),
    ),
    Mutant(
        "types at whoever is in front of a stopped session",
        "a shell runs each line of a prompt",
        (Edit(_TERMINAL, 'in_front and state not in "TtZX"', "True"),),
        (f"{_TYPING}::test_the_shell_above_a_stopped_program_gets_no_key",),
    ),
    Mutant(
        "believes a tmux that does not answer after Enter",
        "what was submitted is said again",
        (
            Edit(
                _TERMINAL,
                "except NotObeyedError:  # tmux may have pressed it, and not have said so",
                "except KeyError:",
            ),
        ),
        (f"{_TYPING}::test_once_enter_was_pressed_nothing_means_that_it_was_not",),
    ),
    Mutant(
        "types again what was typed in vain",
        "an editor's mode gets a text as its commands, every few seconds for a day",
        (Edit(_ACTIONS, "except KeysPressedError as error:", "except KeyError as error:"),),
        (f"{_SEATED}::test_what_was_typed_in_vain_is_not_typed_again",),
    ),
    Mutant(
        "queues what can never be said",
        "it blocks what waits behind it",
        (Edit(_ACTIONS, "self._seats.require_sound(session_id, text)", "pass"),),
        (f"{_SEATED}::test_what_can_never_be_said_is_not_queued",),
    ),
    Mutant(
        "says what waits though two persons decide there by now",
        "one person has the agent do what two were to decide",
        (Edit(_ACTIONS, "await self.reports.require_prompting(command)", "pass"),),
        (f"{_DOING}::test_who_may_not_prompt_alone_any_more_is_not_said",),
    ),
    Mutant(
        "presses Escape at what has come since",
        "it denies what a dialog asks",
        (Edit(_TERMINAL, "if not works():", "if False:"),),
        (f"{_TYPING}::test_escape_is_not_pressed_at_a_dialog_nor_once_it_works_no_more",),
    ),
    Mutant(
        "sends the terminal's own commands",
        "who may prompt clears a session, or runs a shell past its permissions",
        (
            Edit(
                _ACTING,
                'if text.lstrip()[:1] in ("/", "!", "#"):\n        raise NotObeyedError("it begins',
                'if False:\n        raise NotObeyedError("it begins',
            ),
        ),
        (
            "tests/unit/collector/test_acting.py"
            "::test_what_the_terminal_takes_for_a_command_is_no_prompt",
        ),
    ),
    Mutant(
        "obeys a command again",
        "who repeats what was said decides",
        (Edit(_HOLDS, "if command.id in self._used:", "if False:"),),
        (f"{_CORE}::test_a_command_is_used_once_even_if_it_was_refused",),
    ),
    Mutant(
        "decides another session's request",
        "what was meant for one session allows a command in another",
        (Edit(_HOLDS, "if command.session_id != asked.session_id:", "if False:"),),
        (_FITS, _MANY),
    ),
    Mutant(
        "decides what was not shown",
        "a click on one command runs another",
        (
            Edit(
                _HOLDS,
                'if not secrets.compare_digest(now_asked.encode(), (command.binding or "").encode()):',
                "if False:",
            ),
        ),
        (_FITS, _MANY),
    ),
    Mutant(
        "binds to what was asked at first",
        "an input that is changed after it was shown is allowed",
        (
            Edit(
                _HOLDS,
                "now_asked = binding_of(asked.session_id, asked.cwd, asked.tool, asked.given)",
                "now_asked = held.binding",
            ),
        ),
        (f"{_CORE}::test_what_is_changed_after_it_was_shown_is_not_decided",),
    ),
    Mutant(
        "decides after its time",
        "a click of yesterday runs a command today",
        (Edit(_HOLDS, "if now >= held.until:", "if False:"),),
        (f"{_CORE}::test_nothing_is_decided_after_its_time", _MANY),
    ),
    Mutant(
        "takes whatever verb it is given",
        "a rule is added that nobody suggested, a plan is allowed as a command is",
        (
            Edit(_HOLDS, "if command.verb not in asked.verbs:", "if False:"),
            Edit(_ACTING, "if command.verb not in asked.verbs:", "if False:"),
        ),
        (_SOUND,),
    ),
    Mutant(
        "leaves open what it has decided",
        "a second decision follows the first",
        (Edit(_HOLDS, '        self._end(held, "decided" if body else "handed back")\n', ""),),
        (f"{_CORE}::test_a_decision_closes_what_it_decides",),
    ),
    Mutant(
        "keeps what the terminal has answered",
        "a card can be decided that nobody asks any more",
        (
            Edit(
                _HOLDS,
                'return "answered" if held.tool_use_id is not None and same',
                "return None if same",
            ),
        ),
        (f"{_CORE}::test_what_ends_a_request_and_what_does_not", _MANY),
    ),
    Mutant(
        "ends every request of a session with any turn",
        "an end that was read late takes a new request away",
        (Edit(_HOLDS, "if signal.agent_id == child and signal.at > held.at", "if True"),),
        (f"{_CORE}::test_what_ends_a_request_and_what_does_not",),
    ),
    Mutant(
        "believes that what was sent took effect",
        "the page says denied, and the command ran",
        (Edit(_HOLDS, 'took = ours and accepted == (command.verb != "deny")', "took = True"),),
        (f"{_CORE}::test_what_came_of_a_decision_is_what_the_agent_wrote",),
    ),
    Mutant(
        "believes any signature",
        "whoever may write to Redis decides",
        (Edit(_COMMANDS, "        key.verify(signature, _covered(host_id, raw))\n", ""),),
        (_MANY,),
    ),
    Mutant(
        "takes commands for other machines",
        "what was allowed there is allowed here",
        (
            Edit(_COMMANDS, "if command.host_id != host_id:", "if False:"),
            Edit(
                _COMMANDS,
                "_covered(host_id, raw))\n        command",
                '_covered(msgspec.json.decode(raw)["host_id"], raw))\n        command',
            ),
        ),
        (_MANY,),
    ),
    Mutant(
        "takes commands of any age",
        "one that was held back, of which was said that it failed, decides later",
        (Edit(_COMMANDS, "if not -DECISION_TTL_MS <= age_ms <= most_ms:", "if False:"),),
        (_MANY,),
    ),
    Mutant(
        "obeys what was said before it listened",
        "after a restart old commands are obeyed",
        (
            Edit(
                _FEED,
                'last = (await line.ask(host_id, KeysRequest(commands=""))).end',
                'last = "0-0"',
            ),
        ),
        (
            "tests/integration/test_control_collector.py::test_what_was_said_before_it_listened_is_never_obeyed",
        ),
    ),
    Mutant(
        "obeys where control is off",
        "the owner's no does not count",
        (
            Edit(
                _REMOTE,
                "        if not self.is_on():\n            raise NotObeyed",
                "        if False:\n            raise NotObeyed",
            ),
            Edit(
                _REMOTE,
                "if answer is None or answer.done() or not self.is_on():",
                "if answer is None or answer.done():",
            ),
        ),
        (f"{_MACHINE}::test_a_command_that_comes_when_control_has_ended_is_refused", _MANY),
    ),
    Mutant(
        "decides what nobody could account for",
        "a decision leaves no trace",
        (
            Edit(
                _REMOTE,
                '            self._finish([HoldOver(held, "handed back")])\n            return\n        answer = self',
                "        answer = self",
            ),
            Edit(
                _REMOTE,
                "            mark = await self._written(_about(command) | told",
                '            mark = ""\n            mark = await self._written(_about(command) | told',
            ),
        ),
        (f"{_MACHINE}::test_without_a_trail_nothing_is_decided", _MANY),
    ),
    Mutant(
        "lets be allowed what was masked",
        "a command hides behind the shape of a secret",
        (Edit(_REMOTE, "if private(shown).payload == asked.given and", "if"),),
        (_WHOLE, _MANY),
    ),
    Mutant(
        "lets be allowed what is too long to be read",
        "a command hides behind its length",
        (
            Edit(
                _ACTING,
                "lenient(raw, dict[str, Any]) if len(raw) <= INPUT_MAX else None",
                "lenient(raw, dict[str, Any])",
            ),
        ),
        (_WHOLE,),
    ),
    Mutant(
        "believes a consent that others can write or read",
        "another program of the machine switches control on",
        (Edit(_CONSENT, "if os.fstat(file.fileno()).st_mode & 0o077:", "if False:"),),
        ("tests/unit/collector/test_consent.py::test_what_nobody_agreed_to_is_off",),
    ),
    Mutant(
        "believes the clock on the wall alone",
        "who sets the clock back prolongs a consent",
        (Edit(_CONSENT, "consent.until is not None and self._timer() >= self._ends", "False"),),
        (
            "tests/unit/collector/test_consent.py::test_it_ends_while_the_collector_runs_whatever_the_clock_on_the_wall_says",
        ),
    ),
    Mutant(
        "obeys what was given to a collector before it",
        "who repeats what was said before a restart has it done again",
        (Edit(_REMOTE, "elif command.run != self._parties.run:", "elif False:"),),
        (f"{_MACHINE}::test_what_was_given_to_a_collector_before_this_one_is_not_obeyed", _MANY),
    ),
    Mutant(
        "lets one person decide where it takes two",
        "a stolen sign-in alone runs commands in production",
        (Edit(_HOLDS, "if persons > 1 and command.verb not in REFUSING:", "if False:"),),
        (f"{_MACHINE}::test_where_two_persons_are_needed_one_alone_allows_nothing", _MANY),
    ),
    Mutant(
        "counts one person twice",
        "who clicks twice, or spells their name otherwise, is two persons",
        (
            Edit(_HOLDS, "if person(command.by) in same:", "if False:"),
            Edit(_HOLDS, "if len(same) + 1 < persons:", "if not same:"),
        ),
        (f"{_MACHINE}::test_where_two_persons_are_needed_one_alone_allows_nothing", _MANY),
    ),
    Mutant(
        "counts persons who decided otherwise",
        "one allows a call, the other all that follow, and all that follow are allowed",
        (
            Edit(
                _HOLDS,
                "if means_the_same(said, command)}",
                "}",
            ),
        ),
        (f"{_MACHINE}::test_where_two_persons_are_needed_one_alone_allows_nothing", _MANY),
    ),
    Mutant(
        "lets somebody alone prompt where it takes two",
        "one person has the agent do what two were to decide",
        (Edit(_REMOTE, "            await self.require_prompting(command)\n", ""),),
        (f"{_MACHINE}::test_nobody_alone_prompts_a_session_in_which_two_decide",),
    ),
    Mutant(
        "lets a rule allow where two persons are to",
        "nobody at all decides what two were to",
        (
            Edit(
                _POLICY,
                'if "allow" in asked.verbs and self.persons(asked.cwd) == 1:',
                'if "allow" in asked.verbs:',
            ),
            Edit(_HOLDS, "if persons > 1 and command.verb not in REFUSING:", "if False:"),
        ),
        (f"{_RULES}::test_where_two_persons_are_needed_no_rule_allows_but_one_may_deny", _MANY),
    ),
    Mutant(
        "lets a rule allow what a person could not",
        "a rule allows what is masked, or asks a question",
        (Edit(_POLICY, 'if "allow" in asked.verbs and', "if"),),
        (f"{_RULES}::test_a_rule_never_allows_what_a_person_could_not_or_has_to_think_about",),
    ),
    Mutant(
        "lets a rule decide that is only tried",
        "a rule that nobody has looked at allows commands",
        (Edit(_POLICY, "if not rule.dry_run:", "if True:"),),
        (f"{_RULES}::test_the_first_rule_that_fits_decides_and_a_dry_one_only_is_tried", _MANY),
    ),
    Mutant(
        "reads a command by its first words",
        "what stands behind a semicolon runs with it",
        (Edit(_POLICY, "    if not _PLAIN.fullmatch(command):\n        return None\n", ""),),
        (f"{_RULES}::test_a_command_that_says_more_than_words_is_no_rules", _MANY),
    ),
    Mutant(
        "follows no link of a file",
        "a link in the directory leads a rule to any file",
        (
            Edit(_POLICY, "for each in (path, matter.real(path)):", "for each in (path,):"),
            Edit(
                _POLICY,
                "PurePath(real(path)), PurePath(real(_path(directory)))",
                "PurePath(path), PurePath(_path(directory))",
            ),
        ),
        (f"{_RULES}::test_a_link_out_of_the_directory_is_no_rules",),
    ),
    Mutant(
        "believes rules that others may write",
        "another user of the machine writes a rule",
        (Edit(_POLICY, "if found.st_mode & 0o022 or", "if"),),
        (f"{_RULES}::test_a_file_that_others_may_write_holds_no_rule",),
    ),
    Mutant(
        "allows where the owner's rules cannot be read",
        "a slip of the pen switches off that two persons decide",
        (Edit(_REMOTE, "if fault and command.verb not in REFUSING:", "if False:"),),
        (
            f"{_MACHINE}::test_where_rules_cannot_be_read_nothing_is_allowed_but_may_be_denied",
            _MANY,
        ),
    ),
    Mutant(
        "obeys a person who is called as a rule is",
        "the trail says that a rule decided what a person did",
        (Edit(_REMOTE, "if by.startswith(BY_RULE):", "if False:"),),
        (f"{_MACHINE}::test_nobody_is_called_as_what_decides_by_itself", _MANY),
    ),
    Mutant(
        "lets an operator of one machine act on another",
        "a token for a test machine decides in production",
        (Edit("hub/adsum_hub/auth/gate.py", "if grant.hosts and not (", "if False and not ("),),
        (
            "tests/unit/hub/auth/test_gate.py"
            "::test_an_operator_of_some_machines_does_nothing_on_others",
        ),
    ),
    Mutant(
        "forgets what went before a file of the trail",
        "whoever takes the oldest lines away is not noticed",
        (
            Edit(
                "collector/adsum_collector/control/consent.py",
                'if first is not None and f"{gone} {first.before}" not in told',
                "if first is None and f'{gone}' not in told",
            ),
        ),
        (
            "tests/unit/collector/test_trail.py::test_a_trail_that_is_full_goes_on_in_a_new_file_and_stays_one_chain",
        ),
    ),
    Mutant(
        "sends answers that are not complete",
        "the agent is told that its question was not answered",
        (Edit(_ACTING, "if not chosen or not all(chosen):", "if False:"),),
        (_SOUND,),
    ),
    Mutant(
        "carries plans out in any mode",
        "a click switches off every question that follows",
        (Edit(_ACTING, "if command.mode not in (None, *MODES):", "if False:"),),
        (_SOUND,),
    ),
    Mutant(
        "prints half an answer",
        "the agent reads what nobody decided",
        (Edit(_SHIM, ' and answer.endswith(b"}\\n")', ""),),
        ("tests/unit/collector/test_shim.py::test_half_a_decision_is_none",),
    ),
)
