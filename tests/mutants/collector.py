"""Mutants of the collector: what it promises, keeps, sends and sends again."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_APP = "collector/adsum_collector/app.py"
_CONNECT = "shared/adsum_shared/connect.py"
_FILE = "collector/adsum_collector/spool/spool_file.py"
_LOCK = "collector/adsum_collector/state_dir.py"
_KEYS = "shared/adsum_shared/host_keys.py"
_SHIM = "collector/adsum_collector/shim.py"
_EVENTS = "collector/adsum_collector/agents/claude_code/settings_text.py"
_OPENING = "collector/adsum_collector/listening/sockets.py"
_PRIVATE = "shared/adsum_shared/private_files.py"
_PUBLISHER = "collector/adsum_collector/delivery/publisher.py"
_READER = "collector/adsum_collector/transcripts/tailer.py"
_RECEIVER = "collector/adsum_collector/listening/receiver.py"
_LINES = "collector/adsum_collector/line_reader.py"
_SAYING = "cli/adsum/outcome.py"
_PLACE = "collector/adsum_collector/delivery/publisher.py"
_RESUME = "collector/adsum_collector/delivery/resume.py"
_TRANSCRIPTS = "collector/adsum_collector/transcripts/cursors.py"
_BODIES = "collector/adsum_collector/agents/claude_code/bodies.py"
_USAGE = "collector/adsum_collector/usage/witness.py"
_COUNT = "tests/integration/test_usage_witness.py"
_BOUNDED = "shared/adsum_shared/bounded_http.py"
_INTAKE = "collector/adsum_collector/intake.py"
_SPOOL = "collector/adsum_collector/spool/spool.py"
_DIRECTORY = "collector/adsum_collector/spool/spool_directory.py"

_BROKER = "tests/integration/test_collector_broker.py"
_CAP = "tests/unit/collector/test_spool_cap.py"
_DELIVERY = "tests/integration/test_delivery_collector.py"
_PROCESS = "tests/integration/test_collector_process.py"
_TAILING = "tests/unit/collector/test_tailer_files.py"
_LIVES = "tests/unit/collector/test_stream_position.py"
_BY_SHIM = "tests/unit/collector/test_shim.py"
_INSTALL_EVENTS = "tests/unit/collector/test_install_events.py"
_PEERS = "tests/unit/collector/test_sockets.py"
_PRIVATE_FILES = "tests/unit/shared/test_private_files.py"
_CONNECTIONS = "tests/unit/shared/test_bounded_http.py"
_DOOR = "tests/unit/collector/test_receiver.py"
_LARGE = "tests/unit/collector/test_large_hooks.py"
_SPOOL_FILES = "tests/unit/collector/test_spool_directory.py"

_ACCEPT = "await self._intake.accept(signals, state={key_of(file.path): encode_cursor(cursor)})"
_STATE = "{key_of(file.path): encode_cursor(cursor)}"

MUTANTS = (
    Mutant(
        "posts what is answered for a human",
        "whoever listens while no collector does allows the command, or puts another in its place",
        (Edit(_EVENTS, " and event not in BY_SHIM", ""),),
        (f"{_INSTALL_EVENTS}::test_what_is_answered_for_a_human_is_never_posted",),
    ),
    Mutant(
        "tells whoever listens on the shim's socket",
        "a prompt goes to another user",
        (
            Edit(
                _SHIM,
                "        if peer_uid(connection, _socket) not in friends:\n            return True\n",
                "",
            ),
        ),
        (f"{_BY_SHIM}::test_a_socket_that_was_given_our_name_by_another_listener_is_told_nothing",),
    ),
    Mutant(
        "follows a link in the place of the shim's socket",
        "who placed it there chooses who hears",
        (
            Edit(
                _SHIM,
                "    if os.lstat(path).st_uid not in friends:\n        return True\n",
                "",
            ),
        ),
        (f"{_BY_SHIM}::test_a_link_that_another_user_has_placed_is_not_followed",),
    ),
    Mutant(
        "stamps a hook when Python has started",
        "on a busy machine hooks that nobody waits for change their order",
        (Edit(_SHIM, "        fired_at(),\n", "        time.time() * 1000,\n"),),
        (f"{_BY_SHIM}::test_hooks_are_stamped_in_the_order_in_which_they_fired",),
    ),
    Mutant(
        "keeps the token that a stranger on the port was shown",
        "who listened in the collector's place reports sessions of this machine",
        (Edit(_OPENING, "            renew_token(settings.state_dir)\n", ""),),
        (f"{_PEERS}::test_a_collector_whose_port_another_user_holds_renews_the_hooks_token",),
    ),
    Mutant(
        "leaves a settings file open that it writes a token into",
        "others on the machine read it, and report sessions",
        (
            Edit(
                "collector/adsum_collector/agents/settings_file.py",
                "        return now & ~OTHERS, now\n",
                "        return None, now\n",
            ),
        ),
        (
            "tests/unit/collector/test_install.py"
            "::test_a_file_that_is_given_a_token_is_closed_and_opened_again_without_it",
        ),
    ),
    Mutant(
        "follows a link in the place of a file of its own",
        "a collector of root writes where the owner of its folder wants it to",
        (Edit(_PRIVATE, "flags | os.O_NOFOLLOW | os.O_NONBLOCK", "flags | os.O_NONBLOCK"),),
        (f"{_PRIVATE_FILES}::test_the_collectors_lock_follows_no_link",),
    ),
    Mutant(
        "takes the state directory of another user for its own",
        "root's collector leaves files there that the owner cannot use, or steers",
        (
            Edit(
                "collector/adsum_collector/state_dir.py",
                "        require_own_folder(directory)\n",
                "",
            ),
        ),
        (f"{_PRIVATE_FILES}::test_root_keeps_out_of_the_state_directory_of_another_user",),
    ),
    Mutant(
        "answers a hook before its commit",
        "a crash takes signals along whose senders were told that they are safe",
        (
            Edit(
                _RECEIVER,
                "            return await door.intake.accept(signals), signals",
                "            self._late = asyncio.create_task(door.intake.accept(signals))\n"
                "            return 0, signals",
            ),
        ),
        (f"{_DELIVERY}::test_a_hook_is_not_answered_while_its_commit_is_under_way",),
    ),
    Mutant(
        "gives numbers out before they are on disk",
        "two signals get one number after a crash, and hubs drop the second",
        (
            Edit(
                _SPOOL,
                "        return await done",
                "        await asyncio.sleep(0)\n        return self.last_seq + 1",
            ),
        ),
        (f"{_DELIVERY}::test_a_hook_is_not_answered_while_its_commit_is_under_way",),
    ),
    Mutant(
        "leaves what it commits to the page cache",
        "a power cut takes the last signals along",
        (Edit(_FILE, "synchronous = FULL", "synchronous = OFF"),),
        (f"{_SPOOL_FILES}::test_every_commit_is_synced_to_the_disk",),
    ),
    Mutant(
        "commits how far a transcript was read before what it said",
        "a kill between the two loses the lines",
        (
            Edit(
                _READER,
                _ACCEPT,
                f"await self._intake.accept([], state={_STATE})\n"
                "            await self._intake.accept(signals)",
            ),
        ),
        (f"{_DELIVERY}::test_a_line_is_told_once_after_whichever_commit_the_collector_was_killed",),
    ),
    Mutant(
        "commits how far a transcript was read after what it said",
        "a kill between the two doubles the lines",
        (
            Edit(
                _READER,
                _ACCEPT,
                f"await self._intake.accept(signals)\n"
                f"            await self._intake.accept([], state={_STATE})",
            ),
        ),
        (f"{_DELIVERY}::test_a_line_is_told_once_after_whichever_commit_the_collector_was_killed",),
    ),
    Mutant(
        "calls a first count complete before the walk is over",
        "beside a large history the page says that nothing was used",
        (Edit(_USAGE, "self._is_first = self._is_first and not walked", "self._is_first = False"),),
        (f"{_COUNT}::test_a_first_start_says_that_it_still_counts_until_all_is_reported",),
    ),
    Mutant(
        "takes half a line",
        "what the agent is just writing is told as it stands, and its rest as nonsense",
        (
            Edit(_LINES, 'buffer.rfind(b"\\n", kept, kept + got) + 1', "kept + got"),
            Edit(_TRANSCRIPTS, "rest = parts.pop()", 'rest = b""'),
        ),
        (f"{_TAILING}::test_half_a_line_waits_for_its_newline",),
    ),
    Mutant(
        "reads a transcript of any size",
        "a terabyte of holes takes a core for minutes, and the other sessions wait",
        (
            Edit(
                _LINES,
                "if os.fstat(descriptor).st_size > MOST_TRANSCRIPT_BYTES:",
                "if False:",
            ),
        ),
        (f"{_TAILING}::test_a_file_of_absurd_size_is_not_opened",),
    ),
    Mutant(
        "leaves out a huge line at one go",
        "while it reads through one long line, no other session's are read",
        (Edit(_TRANSCRIPTS, "most=SKIPPED_BYTES", "most=1 << 40"),),
        (f"{_TAILING}::test_a_huge_line_is_left_out_in_turns",),
    ),
    Mutant(
        "prints data as it comes",
        "a label called after an escape code takes over the terminal of whoever asks for usage",
        (Edit(_SAYING, "print(safe(text), end=end", "print(text, end=end"),),
        (
            "tests/integration/test_cli_hostile.py::"
            "test_no_name_reaches_a_terminal_as_more_than_a_name[usage --by host --csv]",
        ),
    ),
    Mutant(
        "knows a transcript by its name alone",
        "a file that was written anew is read from where the old one ended",
        (
            Edit(
                _TRANSCRIPTS,
                "    if cursor.head != digest(descriptor, cursor.head_size):\n"
                '        return "replaced"\n'
                "    return None if cursor.before == checksum(descriptor, cursor.offset) else"
                ' "replaced"',
                "    return None",
            ),
        ),
        (
            f"{_TAILING}::test_a_rewritten_file_is_begun_anew",
            f"{_TAILING}::test_another_file_of_the_same_beginning_is_begun_anew",
        ),
    ),
    Mutant(
        "takes a sender's second try for news",
        "a shim whose answer was lost doubles its signal",
        (Edit(_FILE, "messages[append.message_id] = seq", "pass"),),
        (f"{_SPOOL_FILES}::test_a_message_that_comes_twice_gets_its_first_number",),
    ),
    Mutant(
        "deletes what Redis has taken",
        "a Redis that loses its tail, or all, cannot be filled again",
        (
            Edit(
                _PLACE,
                "self._spool.acknowledge(min(stored.applied, self.sent))",
                "self._spool.acknowledge(self.sent)",
            ),
        ),
        (f"{_DELIVERY}::test_nothing_leaves_the_spool_before_a_hub_has_stored_it",),
    ),
    Mutant(
        "deletes what hubs have at once",
        "a Redis that is set back by an hour cannot be filled again",
        (Edit(_DIRECTORY, " and self.sealed[0].at < before", ""),),
        (f"{_SPOOL_FILES}::test_an_acknowledged_file_goes_when_it_is_old_enough",),
    ),
    Mutant(
        "drops at the cap without a word",
        "hubs wait for numbers that nobody has, or take what is left for all",
        (Edit(_DIRECTORY, "            if file.last > acked:\n", "            if False:\n"),),
        (f"{_SPOOL_FILES}::test_beyond_the_cap_the_oldest_goes_and_leaves_a_gap",),
    ),
    Mutant(
        "deletes at the cap before it has written that down",
        "a crash between the two leaves a hole that looks like damage",
        (
            Edit(
                _DIRECTORY,
                "        # With the gaps in it, before anything goes:",
                "        for _ in evicted:\n"
                "            self._drop_oldest()\n"
                "        # With the gaps in it, before anything goes:",
            ),
            Edit(
                _DIRECTORY,
                "        for _ in evicted:\n"
                "            self._drop_oldest()\n"
                "        if old.last == old.meta.base:",
                "        if old.last == old.meta.base:",
            ),
        ),
        (f"{_CAP}::test_killed_at_any_moment_of_an_eviction_there_is_a_gap_or_there_are_the_rows",),
    ),
    Mutant(
        "gives a damaged file up whole",
        "one bad page costs a day of signals instead of a few",
        (
            Edit(
                _FILE,
                "return list(islice(self.readable(after), limit if limit >= 0 else None))",
                "return []",
            ),
        ),
        (f"{_SPOOL_FILES}::test_damage_inside_a_full_file_costs_what_cannot_be_read_and_no_more",),
    ),
    Mutant(
        "gives all files up when the newest is damaged",
        "what no hub has yet is lost although it can be read",
        (
            Edit(
                _DIRECTORY,
                "rows=enumerate(_salvaged(ours, acked), 2),",
                "rows=(),",
            ),
        ),
        (f"{_SPOOL_FILES}::test_what_a_damaged_file_still_gives_up_is_kept",),
    ),
    Mutant(
        "goes on after an error of the disk as if it had kept everything",
        "signals are promised on top of a hole that only memory hides",
        (Edit(_DIRECTORY, "self._suspect |= not is_full(error)", "pass"),),
        (
            "tests/unit/collector/test_spool_disk.py"
            "::test_after_an_input_output_error_the_file_is_checked_and_another_one_begun",
        ),
    ),
    Mutant(
        "trusts that every file it had is still there",
        "numbers of a file that is gone or unreadable are waited for as if they would come",
        (Edit(_DIRECTORY, "            if first > after + 1:", "            if False:"),),
        (
            "tests/unit/collector/test_spool_repair.py"
            "::test_in_the_middle_it_costs_only_what_cannot_be_read",
        ),
    ),
    Mutant(
        "forgets what a full disk had no room for",
        "the run that gives the next numbers is not on disk, and hubs take them for another's",
        (Edit(_FILE, "            self.unwritten = owed", "            pass"),),
        (
            "tests/unit/collector/test_spool_disk.py"
            "::test_a_note_without_a_signal_is_taken_even_by_a_full_disk_and_written_once_there_is_room",
        ),
    ),
    Mutant(
        "names every spool alike",
        "after damage numbers are given out again, and hubs drop the new signals as known",
        (
            Edit(
                _DIRECTORY,
                "        meta = Meta(secrets.token_hex(8), 0, 0, 0)",
                '        meta = Meta("again", 0, 0, 0)',
            ),
            Edit(
                _DIRECTORY,
                "                Meta(secrets.token_hex(8), 0, 0, 0),\n",
                '                Meta("again", 0, 0, 0),\n',
            ),
        ),
        (f"{_SPOOL_FILES}::test_a_damaged_newest_file_is_quarantined_and_a_new_spool_begins",),
    ),
    Mutant(
        "lets Redis choose the ids, and the client try again",
        "a lost reply doubles a batch",
        (
            Edit(_KEYS, "asked.add.id, *pairs)", '"*", *pairs)'),
            Edit(_CONNECT, '        "retry": None,\n', ""),
        ),
        (f"{_DELIVERY}::test_a_batch_whose_reply_is_lost_lies_in_the_stream_once",),
    ),
    Mutant(
        "says nothing of numbers it no longer has",
        "hubs ask for them again and again, or wait for ever",
        (
            Edit(
                _PUBLISHER,
                "        await inbox.add(entry, fields)\n",
                "        if isinstance(found, SpoolGap):\n"
                "            self.sent = found.last\n"
                "            return 0\n"
                "        await inbox.add(entry, fields)\n",
            ),
        ),
        (f"{_DELIVERY}::test_what_a_hub_has_stored_leaves_the_spool_and_is_a_gap_when_wanted",),
    ),
    Mutant(
        "sends what it read of one spool under the name of the next",
        "numbers that mean one signal on the disk mean another at the hub",
        (
            Edit(
                _PUBLISHER,
                "            if self._spool.spool_id != position.spool_id:\n                continue",
                "            if False:\n                continue",
            ),
        ),
        (
            "tests/unit/collector/test_publisher.py"
            "::test_what_was_read_of_another_spool_is_not_sent_under_the_old_id",
        ),
    ),
    Mutant(
        "runs beside another on the same disk",
        "two give out the same numbers, and each takes the other for a copy",
        (
            Edit(
                _LOCK,
                "            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
                "            pass",
            ),
        ),
        (f"{_PROCESS}::test_a_second_collector_names_the_first_and_the_way_out",),
    ),
    Mutant(
        "takes another's entry for its own",
        "what a copy of this machine sent under our number replaces what we have",
        (
            Edit(
                _KEYS,
                " and (there.spool_id, there.nonce) == ours else",
                " else",
            ),
        ),
        (f"{_BROKER}::test_an_entry_that_is_there_already_is_no_error_and_one_beyond_is",),
    ),
    Mutant(
        "replays under the old ids",
        "readers are past them, and never see what they asked for",
        (Edit(_PLACE, "self.incarnation += 1\n", "self.incarnation += 0\n"),),
        (f"{_DELIVERY}::test_nothing_leaves_the_spool_before_a_hub_has_stored_it",),
    ),
    Mutant(
        "goes on from memory, whatever the stream holds",
        "what a wiped Redis lost comes only once a hub has missed it",
        (
            Edit(
                _RESUME,
                "    if head is None:\n        return ResumePoint(applied, incarnation + 1)",
                "    if head is None:\n        return ResumePoint(max(sent, applied), incarnation)",
            ),
        ),
        (
            "tests/unit/collector/test_publisher.py"
            "::test_a_stream_deleted_under_a_living_connection_is_noticed",
        ),
    ),
    Mutant(
        "trusts a disk whose numbers are given out elsewhere too",
        "what it says under a number that hubs have from another life is dropped as known",
        (
            Edit(
                _RESUME,
                "        heard = dict(stored.runs)\n",
                "        return None\n        heard = dict(stored.runs)\n",
            ),
        ),
        (
            f"{_LIVES}::test_two_lives_that_take_the_same_number_both_deliver",
            f"{_LIVES}::test_a_disk_that_is_set_back_keeps_what_no_hub_has_and_repeats_nothing",
        ),
    ),
    Mutant(
        "leaves the run of its predecessor open",
        "what is taken after a restart bears a dead run's name, and hubs leave it out",
        (Edit(_RESUME, "kept.append(CollectorRun(old, end))", "kept.append(CollectorRun(old))"),),
        (f"{_LIVES}::test_a_signal_bears_the_run_that_took_it_whoever_sends_it",),
    ),
    Mutant(
        "accepts before it has entered its run",
        "a run that never met a broker gives its numbers in another's name",
        (Edit(_APP, "await self._publisher.join()", "pass"),),
        (f"{_DELIVERY}::test_each_run_has_its_own_numbers_though_it_never_met_a_broker",),
    ),
    Mutant(
        "sends every number as the run that sends it",
        "nobody can tell any more which life of a copied disk took a signal",
        (Edit(_RESUME, "if run.end is None or run.end >= seq", "if run.end is None"),),
        (
            f"{_LIVES}::test_a_signal_bears_the_run_that_took_it_whoever_sends_it",
            f"{_LIVES}::test_two_lives_of_one_disk_may_send_the_same_backlog",
        ),
    ),
    Mutant(
        "begins anew with what was delivered",
        "all that was not yet acknowledged comes twice",
        (Edit(_PLACE, "without=ours,", "without=(),"),),
        (f"{_LIVES}::test_a_disk_that_is_set_back_keeps_what_no_hub_has_and_repeats_nothing",),
    ),
    Mutant(
        "copies everything into the new spool, whatever is to stay behind",
        "all that was not yet acknowledged comes twice",
        (
            Edit(
                _DIRECTORY,
                "enumerate(self._unconfirmed(without), 2),",
                "enumerate(self._unconfirmed(()), 2),",
            ),
        ),
        (
            "tests/unit/collector/test_spool_anew.py"
            "::test_what_hubs_have_stays_behind_and_the_rest_goes_along_in_order",
        ),
    ),
    Mutant(
        "begins anew with nothing but what comes from now on",
        "what no hub has is lost with the old spool",
        (Edit(_DIRECTORY, "enumerate(self._unconfirmed(without), 2),", "(),"),),
        (f"{_SPOOL_FILES}::test_a_new_beginning_keeps_what_no_hub_has",),
    ),
    Mutant(
        "begins anew before hubs have spoken on what lies in the stream",
        "nobody knows what of it they will take: it comes twice or not at all",
        (
            Edit(
                _PLACE,
                "        if stored.cursor < leaving.fence:\n            return\n",
                "",
            ),
        ),
        (f"{_LIVES}::test_a_spool_is_left_only_once_a_hub_has_spoken_on_what_lies_in_the_stream",),
    ),
    Mutant(
        "lets a head grow without end",
        "one connection that sends a header for ever takes the whole loop",
        (
            Edit(
                _BOUNDED,
                "self._overhead = 0 if self._progressed else self._overhead + len(piece)",
                "self._overhead = 0",
            ),
        ),
        (f"{_CONNECTIONS}::test_what_is_no_body_is_bounded[4096-header]",),
    ),
    Mutant(
        "waits for ever for a head",
        "connections that dribble hold descriptors for as long as they like",
        (Edit(_BOUNDED, "self.loop.call_later(HEAD_S, self._head_is_due)", "None"),),
        (f"{_CONNECTIONS}::test_a_head_that_dribbles_is_given_up[first]",),
    ),
    Mutant(
        "drops nobody when full",
        "half requests keep everybody else out",
        (Edit(_BOUNDED, "        victim.drop()", "        pass"),),
        (
            f"{_CONNECTIONS}::test_when_full_the_oldest_that_has_asked_nothing_gives_way_then_the_longest_idle",
        ),
    ),
    Mutant(
        "gives loopback a share",
        "one local user shuts out the hooks and the page of another",
        (Edit(_BOUNDED, " and not _is_shared(address)", ""),),
        (
            f"{_CONNECTIONS}::test_an_address_beyond_its_share_closes_its_own_and_loopback_has_no_share",
        ),
    ),
    Mutant(
        "waits for ever for a body",
        "a body that dribbles holds its slot for as long as it likes",
        (Edit(_BOUNDED, 'self._stall("its body came too slowly")', "self._await_body()"),),
        (f"{_CONNECTIONS}::test_a_body_that_dribbles_is_given_up_and_one_that_comes_is_not",),
    ),
    Mutant(
        "keeps signals of ids that no hub takes",
        "hubs drop them, and call the machine incomplete",
        (Edit(_INTAKE, "            signals = self._usable(signals)", "            pass"),),
        (
            "tests/unit/collector/test_intake.py::test_a_session_whose_id_no_hub_takes_is_left_out_counted_and_said_once",
        ),
    ),
    Mutant(
        "tells other users how it fares",
        "they read the host, its label and its counts",
        (Edit(_RECEIVER, '            facts = {"ready": ready}', "            pass"),),
        (f"{_DOOR}::test_other_users_without_the_token_learn_only_whether_it_is_ready",),
    ),
    Mutant(
        "understands large bodies on the loop",
        "one large hook holds up those of all other sessions",
        (Edit(_INTAKE, "    if len(raw) > MOST_BYTES_ON_LOOP:", "    if False:"),),
        (f"{_DOOR}::test_a_large_body_is_understood_while_others_are_answered",),
    ),
    Mutant(
        "reads all of a large tool input",
        "a million keys hold the interpreter for seconds",
        (
            Edit(
                _BODIES,
                "    if len(raw) <= LARGE:\n        return lenient",
                "    if True:\n        return lenient",
            ),
        ),
        (f"{_LARGE}::test_a_tool_input_of_countless_parts_is_passed_over",),
    ),
)
