-- keyfold: commands on fields of one bucket, at one moment and in their order. What isn't as simple as it is read here is left
-- as it is and answered by "?", with all that follows on the same field; whoever sent the command works it out then. What
-- follows each other on one field is read once and written once.
-- KEYS: the bucket, and a key for commands that need one where nothing is. ARGV: how long what is stored in a field may be; then
-- of each command its name, the field, and how many words it needs, with these behind. Answers each command in an array, or the
-- only one as it is.
local call, argv, bucket, scratch = redis.call, ARGV, KEYS[1], KEYS[2]
local longest, last, at, count, answers = tonumber(argv[1]), #argv, 2, 0, {false}
local time, stopped, has_written, is_full
