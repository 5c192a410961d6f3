"""Quiet hours: from one time of day to another, in a zone of their own. Pure."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import msgspec


class Quiet(msgspec.Struct, frozen=True):
    """from_ may lie after to: then they last over midnight. Both are what a clock there shows."""

    from_: time
    to: time
    zone: ZoneInfo

    def end(self, now: int) -> int | None:
        """When they end, if it is quiet at `now`; both in ms since the epoch."""
        today = datetime.fromtimestamp(now / 1000, UTC).astimezone(self.zone).date()
        for day in (today - timedelta(days=1), today):
            begun, ended = self._of(day)
            if begun <= now < ended:
                return ended
        return None

    def _of(self, day: date) -> tuple[int, int]:
        """Instants, not times of day: an hour that comes twice neither ends nor begins them twice.

        In that hour they begin with its first coming and end with its second; a time that is
        skipped is read by the clock as it was before.
        """
        last = day if self.from_ < self.to else day + timedelta(days=1)
        return self._instant(day, self.from_, fold=0), self._instant(last, self.to, fold=1)

    def _instant(self, day: date, at: time, *, fold: int) -> int:
        local = datetime.combine(day, at, tzinfo=self.zone)
        skipped = local.astimezone(UTC).astimezone(self.zone).replace(tzinfo=None) != local.replace(
            tzinfo=None
        )
        return int(local.replace(fold=0 if skipped else fold).timestamp() * 1000)
