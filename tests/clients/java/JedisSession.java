import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import redis.clients.jedis.Connection;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.JedisShardedPubSub;
import redis.clients.jedis.Response;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.resps.ScanResult;

/** A session of jedis's cluster client with the keyfolds at KEYFOLD_ADDRS; fails on the first wrong answer. */
public final class JedisSession {
    public static void main(String[] args) throws Exception {
        Set<HostAndPort> nodes = Session.ADDRESSES.stream()
                .map(address -> new HostAndPort(Session.host(address), Session.port(address)))
                .collect(Collectors.toSet());
        try (JedisCluster client = new JedisCluster(nodes)) {
            client.flushAll();
            Session.check(client.getClusterNodes().size(), 2);
            values(client);
            pipelines(client);
            manyKeys(client);
            transactions(client);
            walks(client);
            messages(client);
            Session.killTheSecond();
            for (int number = 0; number < Session.USERS; number++) {
                String name = Session.NAMES.get(number);
                Session.check(Session.eventually(() -> client.get(name)), Session.NUMBERS.get(number));
            }
        }
        System.out.println("jedis, cluster: as it should be");
    }

    private static void values(JedisCluster client) {
        for (int number = 0; number < Session.USERS; number++) {
            Session.check(client.set(Session.NAMES.get(number), Session.NUMBERS.get(number)), "OK");
        }
        Session.check(Session.NAMES.stream().map(client::get).toList(), Session.NUMBERS);
        Session.check(client.incr("user:41"), 42L);
        Session.check(client.decr("user:41"), 41L);
    }

    private static void pipelines(JedisCluster client) {
        List<Response<String>> answers = new ArrayList<>();
        try (var pipeline = client.pipelined()) {
            Session.NAMES.forEach(name -> answers.add(pipeline.get(name)));
        }
        Session.check(answers.stream().map(Response::get).toList(), Session.NUMBERS);
    }

    private static void manyKeys(JedisCluster client) {
        client.mset("cart:{7}:1", "a", "cart:{7}:2", "b");
        List<String> read = client.mget("cart:{7}:1", "cart:{7}:none", "cart:{7}:2");
        Session.check(read, java.util.Arrays.asList("a", null, "b"));
        Session.check(client.del("cart:{7}:1", "cart:{7}:2"), 2L);
    }

    private static void transactions(JedisCluster client) {
        try (Connection connection = client.getConnectionFromSlot(redis.clients.jedis.util.JedisClusterCRC16.getSlot("cart:{7}:1"));
                var transaction = new redis.clients.jedis.Transaction(connection)) {
            transaction.set("cart:{7}:1", "1");
            transaction.set("plain:{7}", "5");
            Response<Long> count = transaction.incr("cart:{7}:1");
            transaction.exec();
            Session.check(count.get(), 2L);
        }
        Session.check(client.eval("return redis.call('INCR', KEYS[1])", 1, "plain:{7}"), 6L);
    }

    private static void walks(JedisCluster client) {
        // Each keyfold shows the keys of all.
        client.getClusterNodes().values().forEach(pool -> {
            try (Jedis node = new Jedis(pool.getResource())) {
                Set<String> found = new HashSet<>();
                String cursor = ScanParams.SCAN_POINTER_START;
                do {
                    ScanResult<String> page = node.scan(cursor, new ScanParams().match("user:*").count(200));
                    found.addAll(page.getResult());
                    cursor = page.getCursor();
                } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
                Session.check(found, new HashSet<>(Session.NAMES));
            }
        });
    }

    private static void messages(JedisCluster client) throws InterruptedException {
        BlockingQueue<String> heard = new ArrayBlockingQueue<>(4);
        JedisPubSub listener = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                heard.add("listening");
            }

            @Override
            public void onMessage(String channel, String message) {
                heard.add(message);
                unsubscribe();
            }
        };
        JedisShardedPubSub sharded = new JedisShardedPubSub() {
            @Override
            public void onSSubscribe(String channel, int count) {
                heard.add("listening");
            }

            @Override
            public void onSMessage(String channel, String message) {
                heard.add(message);
                sunsubscribe();
            }
        };
        Thread plain = new Thread(() -> client.subscribe(listener, "news{7}"));
        plain.start();
        Session.check(heard.poll(20, TimeUnit.SECONDS), "listening");
        client.publish("news{7}", "a");
        Session.check(heard.poll(20, TimeUnit.SECONDS), "a");
        plain.join();
        Thread shard = new Thread(() -> client.ssubscribe(sharded, "news{7}"));
        shard.start();
        Session.check(heard.poll(20, TimeUnit.SECONDS), "listening");
        client.spublish("news{7}", "b");
        Session.check(heard.poll(20, TimeUnit.SECONDS), "b");
        shard.join();
    }
}
