-- What our Reserve does, for Redis: one hash an operation, decided and changed in one script.
--
-- KEYS: the operation; the counter of fencing tokens
-- ARGV: algorithm, digest, attempt id, lease in seconds, worker, retention and memory in seconds
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local record = redis.call('HMGET', KEYS[1], 'algorithm', 'digest', 'state', 'attempt_id', 'token',
                          'lease_expire', 'attempt', 'response')
if record[3] then
  if record[1] ~= ARGV[1] or record[2] ~= ARGV[2] then
    return {'FINGERPRINT_MISMATCH', record[3], '', ''}
  end
  if record[3] == 'COMPLETE' then
    return {'COMPLETED', '', '', record[8] or ''}
  end
  if record[3] == 'PENDING' and tonumber(record[6]) > now_ms then
    if record[4] == ARGV[3] then
      return {'ALREADY_HELD', record[5], record[6], record[7]}
    end
    return {'IN_PROGRESS', '', record[6], record[7]}
  end
  -- A lease that lapsed: nobody knows, and nobody may start again.
  if record[3] ~= 'FREED' then
    return {'UNRESOLVED', record[5], record[6], record[7]}
  end
end
local token = redis.call('INCR', KEYS[2])
local expire = string.format('%.0f', now_ms + ARGV[4] * 1000)
redis.call('HSET', KEYS[1], 'algorithm', ARGV[1], 'digest', ARGV[2], 'state', 'PENDING',
           'attempt_id', ARGV[3], 'token', token, 'lease_expire', expire, 'attempt', 1,
           'worker', ARGV[5], 'created', string.format('%.0f', now_ms))
redis.call('EXPIRE', KEYS[1], ARGV[4] + ARGV[6] + ARGV[7])
return {'ACQUIRED', tostring(token), expire, '1'}
