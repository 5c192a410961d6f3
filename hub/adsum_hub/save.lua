-- One host's snapshot, cursor, applied numbers and the trim of its stream, or nothing at all.
-- KEYS: snapshot hash, inbox stream, draft hash, and a hash of what collectors may read of it.
-- ARGV: expected version, cursor, applied (JSON), host (JSON), runs (JSON), schema, version to be
-- above, 'draft' if the draft holds the sessions, n, m, n pairs of field and value, m pairs of
-- field and the field to keep its value under, then the fields to delete. Answers
-- {1, new version, whether the stream is behind the cursor}, {0, version found} on a conflict,
-- {-1, schema found} on a newer one, {-2} if the draft is gone.
local function number(field)
  local raw = redis.call('HGET', KEYS[1], field) or '0'
  return string.match(raw, '^%d+$') and #raw <= 15 and tonumber(raw) or 0
end

local schema, found = number('schema'), number('v')
if schema > tonumber(ARGV[6]) then
  return {-1, schema}
end
if found ~= tonumber(ARGV[1]) then
  return {0, found}
end

local target = KEYS[1]
if ARGV[8] == 'draft' then
  if redis.call('EXISTS', KEYS[3]) == 0 then
    return {-2}
  end
  target = KEYS[3]
end

-- A stream that was deleted begins below the cursor: to trim by it would take what nobody has read.
local function reached(last)
  local a, b = string.match(last, '^(%d+)-(%d+)$')
  local c, d = string.match(ARGV[2], '^(%d+)-(%d+)$')
  a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
  return a > c or (a == c and b >= d)
end
local info = redis.pcall('XINFO', 'STREAM', KEYS[2])
local last = '0-0'
for i = 1, #info - 1, 2 do
  if info[i] == 'last-generated-id' then
    last = info[i + 1]
  end
end
local behind = 0
if not reached(last) then
  behind = 1
else
  -- Before all that is added: a script in a Redis that is full may add only after it has begun with
  -- a command that adds nothing, and where streams have filled it, this is the way out.
  redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2])
end

local version = math.max(found, tonumber(ARGV[7])) + 1
local pairs_end = 10 + 2 * tonumber(ARGV[9])
local aside_end = pairs_end + 2 * tonumber(ARGV[10])
for i = pairs_end + 1, aside_end, 2 do
  local kept = redis.call('HGET', KEYS[1], ARGV[i])
  if kept then
    redis.call('HSETNX', target, ARGV[i + 1], kept)
  end
end
for i = 11, pairs_end, 2 do
  redis.call('HSET', target, ARGV[i], ARGV[i + 1])
end
for i = aside_end + 1, #ARGV do
  redis.call('HDEL', target, ARGV[i])
end
redis.call('HSET', target, 'v', version, 'schema', ARGV[6], 'cur', ARGV[2], 'applied', ARGV[3],
  'host', ARGV[4], 'runs', ARGV[5])
redis.call('HSET', KEYS[4], 'cur', ARGV[2], 'applied', ARGV[3], 'runs', ARGV[5])
if target ~= KEYS[1] then
  redis.call('UNLINK', KEYS[1])
  redis.call('RENAME', target, KEYS[1])
  redis.call('PERSIST', KEYS[1])
end

return {1, version, behind}
