"""Appends what hubs hand to a machine to its stream of commands."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from adsum_shared import streams
from adsum_shared.commands import DECISION_TTL_MS
from adsum_shared.connect import Redis

#: KEYS are the stream and, of a decision, what decided its request: the first one wins, at whatever hub.
#: ARGV[3]: what may be there, a command that came to nothing, or empty. Answers what is there instead.
#: Redis gives no entry an id below the last one, so behind one dated ahead each command would be ahead
#: of its time, or none could follow. Whoever may write there may delete as well: the stream begins anew.
_APPEND: Final = """
if KEYS[2] then
  local held = redis.call('GET', KEYS[2])
  if (held or '') ~= ARGV[3] then return held or '?' end
  redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[5])
end
local function add()
  return redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, 6))
end
local id, latest = add(), redis.call('TIME')[1] * 1000 + ARGV[2]
local failure = type(id) == 'table' and id.err
if failure and string.find(failure, 'exhausted')
    or not failure and tonumber(string.match(id, '^%d+')) > latest then
  redis.call('DEL', KEYS[1])
  id = add()
end
return type(id) == 'table' and id
"""


class Decides(NamedTuple):
    """before: what may have decided the request so far; empty: nothing."""

    request_id: str
    command_id: str
    before: str


async def append(
    redis: Redis, host_id: str, fields: Mapping[bytes, bytes], decides: Decides | None = None
) -> str | None:
    """Returns what has decided the request instead. Raises ResponseError, UNAVAILABLE."""
    keys = [streams.commands(host_id)]
    if decides is not None:
        keys.append(streams.decided(host_id, decides.request_id))
    _, command_id, before = decides or ("", "", "")
    words: list[str | int] = [streams.MOST_COMMANDS, DECISION_TTL_MS]
    words += [before, command_id, streams.DECIDED_MS]
    parts = [part for each in fields.items() for part in each]
    other: Any = await redis.eval(_APPEND, len(keys), *keys, *words, *parts)
    return other.decode() if other else None
