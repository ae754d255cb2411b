-- keyfold: a part of a large bucket, with which process gave it. KEYS: the bucket. ARGV: HSCAN's cursor, COUNT
return {string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'), redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])}
