import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.DoubleSupplier;
import java.util.function.LongFunction;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.springframework.dao.DataAccessException;
import org.springframework.data.redis.core.RedisOperations;
import org.springframework.data.redis.core.SessionCallback;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.script.RedisScript;

/**
 * A cache of bundles beside @Cacheable, with its keys: all parts of a product are read with one MGET, written at one moment, and
 * expire together.
 *
 * <pre>
 * product::7:at      until when the bundle is fresh, how long loading it took, and whether there is such a product
 * product::7:name    a part
 * product::7:lock    who loads it now
 * </pre>
 *
 * Whoever finds a fresh bundle has it. Of those who find a stale one, one loads it, and all others have the stale one meanwhile.
 * Of those who find none, one loads it, and all others wait for that one.
 */
class Bundles {
    static final Duration FRESH = Duration.ofSeconds(60);
    static final Duration STALE = Duration.ofSeconds(600);
    static final Duration ABSENT = Duration.ofSeconds(5);
    /** Longer than any load takes; after that another one may begin. */
    static final Duration LOCK = Duration.ofSeconds(10);
    /** A lock is given back only by who holds it: it may have expired, and be somebody else's. */
    private static final RedisScript<Long> RELEASE = RedisScript.of(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0", Long.class);

    /** What was found: `values` is null where it was remembered that there is no such product. */
    private record Seen(long freshUntil, long tookMs, Map<String, String> values) {}

    private final StringRedisTemplate redis;
    private final List<String> parts;
    private final LongFunction<Map<String, String>> load;
    private final LongSupplier clock;
    private final DoubleSupplier dice;

    /** `load` gives a product's parts by their names, or null where there is no such product; `dice` is Math::random. */
    Bundles(StringRedisTemplate redis, List<String> parts, LongFunction<Map<String, String>> load, LongSupplier clock, DoubleSupplier dice) {
        this.redis = redis;
        this.parts = parts;
        this.load = load;
        this.clock = clock;
        this.dice = dice;
    }

    Map<String, String> get(long id) throws InterruptedException {
        Seen seen = read(id);
        if (seen != null && !isDue(seen)) {
            return seen.values();
        }
        String lock = "product::" + id + ":lock";
        String token = UUID.randomUUID().toString();
        while (!redis.opsForValue().setIfAbsent(lock, token, LOCK)) {
            if (seen != null) {
                return seen.values();
            }
            Thread.sleep(10);
        }
        try {
            // Another may have loaded it since it was looked for.
            Seen now = read(id);
            if (now != null && (seen == null || now.freshUntil() != seen.freshUntil())) {
                return now.values();
            }
            return refresh(id);
        } finally {
            redis.execute(RELEASE, List.of(lock), token);
        }
    }

    List<String> keys(long id) {
        return Stream.concat(Stream.of("at"), parts.stream()).map(part -> "product::" + id + ":" + part).toList();
    }

    /** One request, and through keyfold one HMGET. */
    private Seen read(long id) {
        List<String> found = redis.opsForValue().multiGet(keys(id));
        if (found.get(0) == null) {
            return null;
        }
        String[] at = found.get(0).split(" ");
        Map<String, String> values = null;
        if (at[2].equals("1")) {
            values = new HashMap<>();
            for (int index = 0; index < parts.size(); index++) {
                // A part alone may be gone, where the server evicts.
                if (found.get(index + 1) == null) {
                    return null;
                }
                values.put(parts.get(index), found.get(index + 1));
            }
        }
        return new Seen(Long.parseLong(at[0]), Long.parseLong(at[1]), values);
    }

    /** XFetch: the nearer the end, and the longer loading takes, the likelier one request refreshes before anybody has to wait. */
    private boolean isDue(Seen seen) {
        return clock.getAsLong() - seen.tookMs() * Math.log(1 - dice.getAsDouble()) >= seen.freshUntil();
    }

    private Map<String, String> refresh(long id) {
        long began = clock.getAsLong();
        Map<String, String> values = load.apply(id);
        long now = clock.getAsLong();
        List<String> keys = keys(id);
        Duration fresh = values == null ? ABSENT : FRESH;
        String at = (now + fresh.toMillis()) + " " + (now - began) + " " + (values == null ? 0 : 1);
        together(true, group -> {
            if (values == null) {
                // That there is none is an entry too, or each request for it would ask the database.
                group.delete(keys);
                group.opsForValue().set(keys.get(0), at, ABSENT);
                return;
            }
            group.opsForValue().set(keys.get(0), at, FRESH.plus(STALE));
            for (int index = 0; index < parts.size(); index++) {
                group.opsForValue().set(keys.get(index + 1), values.get(parts.get(index)), FRESH.plus(STALE));
            }
        });
        return values;
    }

    /** All of it gone, with one request. */
    long forget(long id) {
        return redis.delete(keys(id));
    }

    /** All of it gone in a while. */
    void expire(long id, Duration after) {
        together(false, group -> keys(id).forEach(key -> group.expire(key, after)));
    }

    private interface Commands {
        void send(RedisOperations<String, String> group);
    }

    /** In MULTI and EXEC, or only one behind the other. */
    private void together(boolean atOneMoment, Commands commands) {
        SessionCallback<List<Object>> callback = new SessionCallback<>() {
            @Override
            @SuppressWarnings("unchecked")
            public <K, V> List<Object> execute(RedisOperations<K, V> operations) throws DataAccessException {
                if (atOneMoment) {
                    operations.multi();
                }
                commands.send((RedisOperations<String, String>) operations);
                return atOneMoment ? operations.exec() : null;
            }
        };
        if (atOneMoment) {
            redis.execute(callback);
        } else {
            redis.executePipelined(callback);
        }
    }
}
