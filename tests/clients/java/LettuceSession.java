import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/** A session of lettuce's cluster client with the keyfolds at KEYFOLD_ADDRS; fails on the first wrong answer. */
public final class LettuceSession {
    public static void main(String[] args) throws Exception {
        List<RedisURI> nodes = Session.ADDRESSES.stream()
                .map(address -> RedisURI.create(Session.host(address), Session.port(address)))
                .toList();
        RedisClusterClient cluster = RedisClusterClient.create(nodes);
        cluster.setOptions(ClusterClientOptions.builder()
                .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                        .enableAllAdaptiveRefreshTriggers()
                        .enablePeriodicRefresh(Duration.ofSeconds(1))
                        .build())
                .build());
        try (StatefulRedisClusterConnection<String, String> connection = cluster.connect()) {
            connection.setTimeout(Duration.ofSeconds(20));
            RedisAdvancedClusterCommands<String, String> client = connection.sync();
            client.flushall();
            Session.check(connection.getPartitions().size(), 2);
            values(client);
            pipelines(connection);
            manyKeys(client);
            transactions(connection);
            walks(connection);
            messages(cluster, client);
            connection.setTimeout(Duration.ofSeconds(1));
            Session.killTheSecond();
            for (int number = 0; number < Session.USERS; number++) {
                String name = Session.NAMES.get(number);
                Session.check(Session.eventually(() -> client.get(name)), Session.NUMBERS.get(number));
            }
        }
        cluster.shutdown();
        System.out.println("lettuce, cluster: as it should be");
    }

    private static void values(RedisAdvancedClusterCommands<String, String> client) {
        for (int number = 0; number < Session.USERS; number++) {
            Session.check(client.set(Session.NAMES.get(number), Session.NUMBERS.get(number)), "OK");
        }
        Session.check(Session.NAMES.stream().map(client::get).toList(), Session.NUMBERS);
        Session.check(client.incr("user:41"), 42L);
        Session.check(client.decr("user:41"), 41L);
    }

    private static void pipelines(StatefulRedisClusterConnection<String, String> connection) throws Exception {
        List<RedisFuture<String>> answers = new ArrayList<>();
        Session.NAMES.forEach(name -> answers.add(connection.async().get(name)));
        for (int number = 0; number < Session.USERS; number++) {
            Session.check(answers.get(number).get(20, TimeUnit.SECONDS), Session.NUMBERS.get(number));
        }
    }

    private static void manyKeys(RedisAdvancedClusterCommands<String, String> client) {
        // lettuce takes keys of all slots apart by itself.
        List<String> read = client.mget(Session.NAMES.toArray(String[]::new)).stream().map(pair -> pair.getValue()).toList();
        Session.check(read, Session.NUMBERS);
        Session.check(client.mset(java.util.Map.of("cart:{7}:1", "a", "cart:{7}:2", "b")), "OK");
        Session.check(client.del("cart:{7}:1", "cart:{7}:2"), 2L);
    }

    private static void transactions(StatefulRedisClusterConnection<String, String> connection) {
        int slot = io.lettuce.core.cluster.SlotHash.getSlot("cart:{7}:1");
        RedisClusterNode node = connection.getPartitions().getPartitionBySlot(slot);
        var there = connection.getConnection(node.getNodeId()).sync();
        there.multi();
        there.set("cart:{7}:1", "1");
        there.set("plain:{7}", "5");
        there.incr("cart:{7}:1");
        Session.check(there.exec().stream().toList(), List.of("OK", "OK", 2L));
        String script = "return redis.call('INCR', KEYS[1])";
        Object count = connection.sync().eval(script, ScriptOutputType.INTEGER, "plain:{7}");
        Session.check(count, 6L);
    }

    private static void walks(StatefulRedisClusterConnection<String, String> connection) {
        // Each keyfold shows the keys of all.
        for (RedisClusterNode node : connection.getPartitions()) {
            Set<String> found = new HashSet<>();
            var there = connection.getConnection(node.getNodeId()).sync();
            ScanIterator.scan(there, ScanArgs.Builder.limit(200).match("user:*")).forEachRemaining(found::add);
            Session.check(found, new HashSet<>(Session.NAMES));
        }
    }

    private static void messages(RedisClusterClient cluster, RedisAdvancedClusterCommands<String, String> client)
            throws InterruptedException {
        BlockingQueue<String> heard = new ArrayBlockingQueue<>(4);
        try (var listener = cluster.connectPubSub()) {
            listener.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String message) {
                    heard.add(message);
                }

                @Override
                public void smessage(String channel, String message) {
                    heard.add(message);
                }
            });
            listener.sync().subscribe("news{7}");
            client.publish("news{7}", "a");
            Session.check(heard.poll(20, TimeUnit.SECONDS), "a");
            listener.sync().ssubscribe("news{7}");
            client.spublish("news{7}", "b");
            Session.check(heard.poll(20, TimeUnit.SECONDS), "b");
        }
    }
}
