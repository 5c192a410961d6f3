"""Mutants of the collector: what it promises, keeps, sends and sends again."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_ANEW = "collector/adsum_collector/spool/anew.py"
_APP = "collector/adsum_collector/app.py"
_CONNECT = "shared/adsum_shared/connect.py"
_CONNECTION = "collector/adsum_collector/spool/connection.py"
_DOUBT = "collector/adsum_collector/spool/doubt.py"
_FILE = "collector/adsum_collector/spool/file.py"
_FILES = "collector/adsum_collector/spool/files.py"
_LOCK = "collector/adsum_collector/lock.py"
_KEYS = "shared/adsum_shared/host_keys.py"
_PUBLISHER = "collector/adsum_collector/delivery/publisher.py"
_READER = "collector/adsum_collector/transcripts/reader.py"
_RECEIVER = "collector/adsum_collector/receiver.py"
_PLACE = "collector/adsum_collector/delivery/place.py"
_REPAIR = "collector/adsum_collector/spool/repair.py"
_REWRITE = "collector/adsum_collector/spool/rewrite.py"
_RUNS = "collector/adsum_collector/delivery/runs.py"
_RESUME = "collector/adsum_collector/delivery/resume.py"
_SEALED = "collector/adsum_collector/spool/sealed.py"
_MATCH = "collector/adsum_collector/transcripts/match.py"
_TRANSCRIPTS = "collector/adsum_collector/transcripts/files.py"
_SPOOL = "collector/adsum_collector/spool/spool.py"

_BROKER = "tests/integration/test_collector_broker.py"
_CAP = "tests/unit/collector/test_spool_cap.py"
_DELIVERY = "tests/integration/test_delivery_collector.py"
_PROCESS = "tests/integration/test_collector_process.py"
_TAILING = "tests/unit/collector/test_tailer_files.py"
_LIVES = "tests/unit/collector/test_place.py"
_SPOOL_FILES = "tests/unit/collector/test_spool_files.py"

_ACCEPT = "await self._intake.accept(signals, state={key_of(file.path): encode_cursor(cursor)})"
_STATE = "{key_of(file.path): encode_cursor(cursor)}"

MUTANTS = (
    Mutant(
        "answers a hook before its commit",
        "a crash takes signals along whose senders were told that they are safe",
        (
            Edit(
                _RECEIVER,
                "            return await self._intake.accept(signals), signals",
                "            self._late = asyncio.create_task(self._intake.accept(signals))\n"
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
        (Edit(_CONNECTION, "synchronous = FULL", "synchronous = OFF"),),
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
        "takes half a line",
        "what the agent is just writing is told as it stands, and its rest as nonsense",
        (
            Edit(
                _TRANSCRIPTS,
                '    parts = data[:end].split(b"\\n", CHUNK_LINES)',
                '    end = len(data)\n    parts = [*data.split(b"\\n", CHUNK_LINES - 1), b""]',
            ),
        ),
        (f"{_TAILING}::test_half_a_line_waits_for_its_newline",),
    ),
    Mutant(
        "knows a transcript by its name alone",
        "a file that was written anew is read from where the old one ended",
        (Edit(_MATCH, "if not _is_of(cursor, descriptor, stamp):", "if False:"),),
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
        (Edit(_SEALED, " and self._files[0].sealed_at < oldest", ""),),
        (f"{_SPOOL_FILES}::test_an_acknowledged_file_goes_when_it_is_old_enough",),
    ),
    Mutant(
        "drops at the cap without a word",
        "hubs wait for numbers that nobody has, or take what is left for all",
        (Edit(_FILES, "            if file.last > acked:\n", "            if False:\n"),),
        (f"{_SPOOL_FILES}::test_beyond_the_cap_the_oldest_goes_and_leaves_a_gap",),
    ),
    Mutant(
        "deletes at the cap before it has written that down",
        "a crash between the two leaves a hole that looks like damage",
        (
            Edit(
                _FILES,
                "        self._current = SpoolFile.create(\n"
                "            path_of(self._directory, number_of(old.path) + 1),",
                "        for _ in going:\n"
                "            self._sealed.drop_oldest()\n"
                "        self._current = SpoolFile.create(\n"
                "            path_of(self._directory, number_of(old.path) + 1),",
            ),
            Edit(
                _FILES,
                "        for _ in going:\n"
                "            self._sealed.drop_oldest()\n"
                "        if old.is_empty:",
                "        if old.is_empty:",
            ),
        ),
        (f"{_CAP}::test_killed_at_any_moment_of_a_drop_there_is_a_gap_or_there_are_the_rows",),
    ),
    Mutant(
        "thins without a gap record",
        "what was left out to save room passes for damage",
        (
            Edit(
                _REWRITE,
                "return with_gap(gaps, whole) if self.absent else gaps",
                "return gaps",
            ),
        ),
        (f"{_CAP}::test_signs_of_life_go_before_any_prompt",),
    ),
    Mutant(
        "thins without looking at what a signal is worth",
        "prompts and questions go while signs of life stay",
        (Edit(_REWRITE, "yield None if worth.is_spare(seq) else", "yield None if seq % 5 else"),),
        (f"{_CAP}::test_signs_of_life_go_before_any_prompt",),
    ),
    Mutant(
        "gives a damaged file up whole",
        "one bad page costs a day of signals instead of a few",
        (Edit(_REWRITE, "return readable(db, source.first - 1, source.last)", "return iter(())"),),
        (f"{_SPOOL_FILES}::test_damage_inside_a_full_file_costs_what_cannot_be_read_and_no_more",),
    ),
    Mutant(
        "gives all files up when the newest is damaged",
        "what no hub has yet is lost although it can be read",
        (
            Edit(
                _REPAIR,
                "itertools.chain.from_iterable(each.bodies(acked) for each in remains.values()),",
                "(),",
            ),
        ),
        (f"{_SPOOL_FILES}::test_what_a_damaged_file_still_gives_up_is_kept",),
    ),
    Mutant(
        "goes on after an error of the disk as if it had kept everything",
        "signals are promised on top of a hole that only memory hides",
        (Edit(_DOUBT, "self._suspect |= not is_full(error)", "pass"),),
        (
            "tests/unit/collector/test_spool_disk.py"
            "::test_after_an_input_output_error_the_file_is_checked_and_another_one_begun",
        ),
    ),
    Mutant(
        "names every spool alike",
        "after damage numbers are given out again, and hubs drop the new signals as known",
        (
            Edit(_REPAIR, "Meta(secrets.token_hex(8), 0, 0, 0)", 'Meta("again", 0, 0, 0)'),
            Edit(
                _REPAIR,
                "meta = Meta(secrets.token_hex(8), incarnation, 0, 0)",
                'meta = Meta("again", incarnation, 0, 0)',
            ),
        ),
        (f"{_SPOOL_FILES}::test_a_damaged_newest_file_is_set_aside_and_a_new_spool_begins",),
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
                "        await self._place.send(inbox, last, fields)",
                "        if isinstance(found, Missing):\n"
                "            self._place.sent = last\n"
                "        else:\n"
                "            await self._place.send(inbox, last, fields)",
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
                "            if self._spool.spool_id != place.spool_id:\n                continue",
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
                "if there is None or (there.spool_id, there.nonce) != (ours.spool_id, ours.nonce):",
                "if there is None:",
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
                "    if head is None:\n        return Resume(applied, incarnation + 1)",
                "    if head is None:\n        return Resume(max(sent, applied), incarnation)",
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
                _RUNS,
                "        heard = dict(stored.runs or {})\n",
                "        return None\n        heard = dict(stored.runs or {})\n",
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
        (Edit(_RUNS, "kept.append(Run(old, end))", "kept.append(Run(old))"),),
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
        (Edit(_RUNS, "if run.end is None or run.end >= seq", "if run.end is None"),),
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
                _ANEW,
                'bodies=_unconfirmed(current, sealed, more.get("without", ())),',
                "bodies=_unconfirmed(current, sealed, ()),",
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
        (
            Edit(
                _ANEW,
                'bodies=_unconfirmed(current, sealed, more.get("without", ())),',
                "",
            ),
        ),
        (f"{_SPOOL_FILES}::test_a_new_beginning_keeps_what_no_hub_has",),
    ),
    Mutant(
        "begins anew before hubs have spoken on what lies in the stream",
        "nobody knows what of it they will take: it comes twice or not at all",
        (
            Edit(
                _PLACE,
                "elif self._leaving and stored.cursor >= self._leaving.fence:",
                "elif self._leaving:",
            ),
        ),
        (f"{_LIVES}::test_a_spool_is_left_only_once_a_hub_has_spoken_on_what_lies_in_the_stream",),
    ),
)
