"""Whatever happens to a spool, every number it gave is a row or in a gap, and says the same for ever."""

from __future__ import annotations

import contextlib
import resource
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from adsum_collector.errors import SpoolUnavailable
from adsum_collector.spool.spool_directory import SpoolDirectory
from adsum_collector.spool.spool_file import Append, SpoolLimits
from tests.spools import Clock, numbers_of, prompt, read_all

LIMITS = SpoolLimits(
    cap_bytes=300_000, rotate_bytes=20_000, retention_s=60, min_free_bytes=0, log_bytes=0
)


class SpoolModel(RuleBasedStateMachine):
    """Against a dict of what was accepted, a set of what may have been, and the state."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="spool-"))
        self.lives = 0
        self.clock = Clock()
        self.accepted: dict[int, bytes] = {}
        self.refused: set[bytes] = set()
        self.state: dict[str, bytes] = {}
        self.told = 0
        self.acked = 0
        self.files = SpoolDirectory(self.root / "0", LIMITS, self.clock)
        self.spool_id = self.files.meta.spool_id

    def teardown(self) -> None:
        if hasattr(self, "files"):
            self.files.close()
            shutil.rmtree(self.root)

    def bodies(self, count: int) -> list[bytes]:
        self.told += count
        return [prompt(at) for at in range(self.told - count, self.told)]

    def commit(self, bodies: list[bytes]) -> None:
        value = b"%d" % self.told
        try:
            last = self.files.commit([Append(bodies, None, {"k": value})])[0]
        except SpoolUnavailable:
            self.refused.update(bodies)
            return
        self.accepted |= dict(enumerate(bodies, last - len(bodies) + 1))
        self.state = {"k": value}

    @rule(count=st.integers(1, 40))
    def put(self, count: int) -> None:
        self.commit(self.bodies(count))

    @rule(seq=st.integers(0, 400))
    def acknowledge(self, seq: int) -> None:
        with contextlib.suppress(SpoolUnavailable):
            self.files.acknowledge(seq, self.spool_id)
            self.acked = max(self.acked, min(seq, self.files.last))

    @rule(seconds=st.integers(1, 120))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds

    @rule()
    def checkpoint(self) -> None:
        with contextlib.suppress(SpoolUnavailable), self.files.trusted():
            self.files.current.checkpoint()

    @rule(count=st.integers(1, 30), most=st.sampled_from([0, 4096, 20_000, 60_000]))
    def fail(self, count: int, most: int) -> None:
        """The disk takes no write beyond so many bytes of a file."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
        try:
            self.commit(self.bodies(count))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    @rule()
    def restart(self) -> None:
        self.files.close()
        self.files = SpoolDirectory(self.root / str(self.lives), LIMITS, self.clock)

    @rule()
    def crash(self) -> None:
        """As the disk is at this instant."""
        self.lives += 1
        shutil.copytree(self.root / str(self.lives - 1), self.root / str(self.lives))
        self.files.close()
        self.files = SpoolDirectory(self.root / str(self.lives), LIMITS, self.clock)

    @invariant()
    def nothing_is_lost_without_a_word(self) -> None:
        if not hasattr(self, "files"):
            return
        for _ in range(2):
            try:
                rows, gaps = read_all(self.files)
                break
            except SpoolUnavailable:
                self.clock.now += 60
        else:
            raise AssertionError("the spool does not recover")
        gone = numbers_of(gaps)
        assert self.files.meta.spool_id == self.spool_id
        assert sorted([*rows, *gone]) == list(range(1, self.files.last + 1))
        for seq, body in self.accepted.items():
            assert seq in gone or rows[seq] == body
        assert {rows[seq] for seq in rows.keys() - self.accepted.keys()} <= self.refused
        self.losses_have_their_reason(gone, {gap.reason for gap in gaps})

    def losses_have_their_reason(self, gone: list[int], reasons: set[str]) -> None:
        assert reasons <= {"cap", "retention"}
        # what is dropped is the oldest: behind the first number that stays none is missing
        assert gone == list(range(1, len(gone) + 1))
        # `or`: a refused commit may be found to have been made
        assert self.files.state == self.state or self.refused


TestSpoolModel = SpoolModel.TestCase
TestSpoolModel.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
