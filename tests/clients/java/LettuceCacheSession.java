import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;

/** A session of lettuce's cache and of its scripts with the server or proxy at KEYFOLD_ADDR; fails on the first wrong answer. */
public final class LettuceCacheSession {
    private static final List<String> KEYS =
            List.of("user:7:logins", "cnt:cached", "sess:0b6e9b34-6d1f-4a52-9c3d-2f1f6f5a7e10", "plain");
    private static final String COUNT = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    /** What a lock is given back by: only by who holds it. */
    private static final String RELEASE =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

    public static void main(String[] args) throws Exception {
        String address = Session.ADDRESSES.get(0);
        RedisURI uri = RedisURI.create(Session.host(address), Session.port(address));
        uri.setTimeout(Duration.ofSeconds(20));
        RedisClient client = RedisClient.create(uri);
        try (var reader = client.connect(); var writer = client.connect()) {
            writer.sync().flushall();
            caches(reader, writer.sync());
            scripts(writer.sync());
        }
        client.shutdown();
        System.out.println("lettuce, its cache and scripts: as it should be");
    }

    /** What lettuce keeps it forgets when somebody changes it, be it by a command, a script, or because it expires. */
    private static void caches(StatefulRedisConnection<String, String> reader, RedisCommands<String, String> writer)
            throws Exception {
        Map<String, String> kept = new ConcurrentHashMap<>();
        CacheFrontend<String, String> cache =
                ClientSideCaching.enable(CacheAccessor.forMap(kept), reader, TrackingArgs.Builder.enabled());
        for (String key : KEYS) {
            Session.check(cache.get(key), null);
            writer.set(key, "1");
            comesToBe(cache, key, "1");
            Session.check(kept.get(key), "1");
            writer.incr(key);
            comesToBe(cache, key, "2");
            Long counted = writer.eval(COUNT, ScriptOutputType.INTEGER, new String[] {key}, "40");
            Session.check(counted, 42L);
            comesToBe(cache, key, "42");
            writer.multi();
            writer.set(key, "43");
            writer.exec();
            comesToBe(cache, key, "43");
            writer.pexpire(key, 50);
            comesToBe(cache, key, null);
            Session.check(cache.get(key, () -> "made"), "made");
            Session.check(writer.get(key), "made");
            writer.set(key, "kept", SetArgs.Builder.px(100_000));
            comesToBe(cache, key, "kept");
            // What only reads is no reason to forget.
            writer.get(key);
            writer.ttl(key);
        }
        // Not by FLUSHALL, whose word lettuce 6.8 doesn't understand, with any server.
        Session.check(writer.del(KEYS.toArray(String[]::new)), 4L);
        for (String key : KEYS) {
            comesToBe(cache, key, null);
        }
    }

    /** Asks the cache until it gives this value. */
    private static void comesToBe(CacheFrontend<String, String> cache, String key, String value) throws Exception {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (!Objects.equals(cache.get(key), value)) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError(key + " is " + cache.get(key) + ", not " + value);
            }
            Thread.sleep(1);
        }
    }

    private static void scripts(RedisCommands<String, String> client) {
        for (String key : KEYS) {
            String[] keys = {key};
            String release = client.scriptLoad(RELEASE);
            Session.check(release, client.digest(RELEASE));
            Session.check(client.set(key, "mine", SetArgs.Builder.nx().px(100_000)), "OK");
            Session.check(client.set(key, "theirs", SetArgs.Builder.nx().px(100_000)), null);
            Session.check(client.<Long>evalsha(release, ScriptOutputType.INTEGER, keys, "theirs"), 0L);
            Session.check(client.scriptExists(release), List.of(true));
            client.scriptFlush();
            try {
                client.<Long>evalsha(release, ScriptOutputType.INTEGER, keys, "mine");
                throw new AssertionError("a script that was forgotten ran");
            } catch (RedisNoScriptException expected) {
                Session.check(client.<Long>eval(RELEASE, ScriptOutputType.INTEGER, keys, "mine"), 1L);
            }
            Session.check(client.<Long>evalsha(release, ScriptOutputType.INTEGER, keys, "mine"), 0L);
            String read = "return redis.call('GET', KEYS[1])";
            Session.check(client.<String>evalReadOnly(read.getBytes(), ScriptOutputType.VALUE, keys), null);
        }
        String many = "local all = {} for _, key in ipairs(KEYS) do all[#all + 1] = redis.call('INCR', key) end return all";
        Session.check(client.<List<Long>>eval(many, ScriptOutputType.MULTI, KEYS.toArray(String[]::new)), List.of(1L, 1L, 1L, 1L));
        Session.check(client.del(KEYS.toArray(String[]::new)), 4L);
    }
}
