-- One host's snapshot, cursor, applied numbers and the trim of its stream, or nothing at all.
-- KEYS: snapshot hash, inbox stream.
-- ARGV: expected version, cursor, applied (JSON), host (JSON), n, n pairs of field and value,
-- then the fields to delete. Answers {1, new version}, or {0, version found} on a conflict.
local found = tonumber(redis.call('HGET', KEYS[1], 'v') or '0')
if found ~= tonumber(ARGV[1]) then
  return {0, found}
end
redis.call('HSET', KEYS[1], 'v', found + 1, 'cur', ARGV[2], 'applied', ARGV[3], 'host', ARGV[4])
local last = 5 + 2 * tonumber(ARGV[5])
for i = 6, last, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
for i = last + 1, #ARGV do
  redis.call('HDEL', KEYS[1], ARGV[i])
end
redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2])
return {1, found + 1}
