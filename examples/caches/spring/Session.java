import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.SpringVersion;
import org.springframework.data.redis.core.RedisCallback;
import org.springframework.data.redis.core.StringRedisTemplate;

/**
 * A session of @Cacheable and of bundles with the keyfold at KEYFOLD_ADDR, which has the layout beside this file; fails on the
 * first wrong answer. Three contexts, each with its connections and caches, stand for three processes.
 */
public final class Session {
    private static final Map<String, String> LAMP = Map.of("name", "Lamp", "price", "12.50", "stock", "3");
    private static final int THREADS = 24;
    private static final ExecutorService POOL = Executors.newFixedThreadPool(THREADS + 1, work -> {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    });
    private static final AtomicInteger LOADS = new AtomicInteger();
    private static final Map<Long, Map<String, String>> DATABASE = new ConcurrentHashMap<>(Map.of(7L, LAMP));
    private static final List<AnnotationConfigApplicationContext> PROCESSES = new ArrayList<>();
    /** Holds loads back. */
    private static volatile CountDownLatch gate = new CountDownLatch(0);

    public static void main(String[] args) throws Exception {
        String address = System.getenv("KEYFOLD_ADDR");
        int colon = address.lastIndexOf(':');
        System.setProperty("redis.host", address.substring(0, colon));
        System.setProperty("redis.port", address.substring(colon + 1));
        for (int number = 0; number < 3; number++) {
            var context = new AnnotationConfigApplicationContext();
            context.register(CacheConfig.class);
            context.registerBean(Products.class, () -> new Products(Session::part));
            context.refresh();
            PROCESSES.add(context);
        }
        redis(0).execute((RedisCallback<Void>) connection -> {
            connection.serverCommands().flushAll();
            return null;
        });
        cacheableLoadsOnce();
        cacheableRemembersWhatIsNotThere();
        manyRequestsAreOneLoad();
        aBundleIsOneBucketAndOneRequest();
        aStaleBundleIsAnsweredAndOneLoadsIt();
        aRefreshComesEarlyByChanceAndOnce();
        whatIsNotThereIsRemembered();
        theWholeExpiresAndIsForgotten();
        PROCESSES.forEach(AnnotationConfigApplicationContext::close);
        System.out.println("Spring " + SpringVersion.getVersion() + ", @Cacheable and bundles with lettuce: as it should be");
    }

    private static String part(long id, String part) {
        Map<String, String> product = load(id);
        return product == null ? null : product.get(part);
    }

    private static Map<String, String> load(long id) {
        LOADS.incrementAndGet();
        try {
            gate.await();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
        return DATABASE.get(id);
    }

    private static StringRedisTemplate redis(int process) {
        return PROCESSES.get(process).getBean(StringRedisTemplate.class);
    }

    private static Products products(int process) {
        return PROCESSES.get(process).getBean(Products.class);
    }

    private static Bundles bundles(int process, long aheadMs, double dice) {
        return new Bundles(redis(process), Products.PARTS, Session::load, () -> System.currentTimeMillis() + aheadMs, () -> dice);
    }

    private static Bundles bundles(int process) {
        return bundles(process, 0, 0);
    }

    private interface Work<T> {
        T of(int process) throws Exception;
    }

    /** What all threads get, of which none begins before all are there. */
    private static <T> List<T> atOnce(Work<T> work) throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(THREADS);
        List<Future<T>> futures = new ArrayList<>();
        for (int number = 0; number < THREADS; number++) {
            int process = number % PROCESSES.size();
            futures.add(POOL.submit((Callable<T>) () -> {
                barrier.await();
                return work.of(process);
            }));
        }
        List<T> answers = new ArrayList<>();
        for (Future<T> future : futures) {
            answers.add(future.get());
        }
        return answers;
    }

    /** One load is held back while all others ask, who have `others`; then it gives `first`. */
    private static <T> void whileOneLoads(Work<T> work, T others, T first) throws Exception {
        LOADS.set(0);
        gate = new CountDownLatch(1);
        Future<T> loading = POOL.submit(() -> work.of(0));
        comesToBe("a load", () -> LOADS.get() == 1);
        check(atOnce(work), Collections.nCopies(THREADS, others));
        gate.countDown();
        check(loading.get(), first);
        check(LOADS.get(), 1);
    }

    private static void cacheableLoadsOnce() throws Exception {
        check(atOnce(process -> products(process).part(7, "name")), Collections.nCopies(THREADS, "Lamp"));
        check(LOADS.get(), 1);
        check(products(1).part(7, "price"), "12.50");
        check(where("product::7:name").get("physical"), where("product::7:price").get("physical"));
        check(where("product::7:name").get("bucket's encoding"), "listpack");
        check(redis(0).getExpire("product::7:name") > 500, true);
        // The parts that it wrote are read together beside it.
        check(redis(0).opsForValue().multiGet(List.of("product::7:name", "product::7:price")), List.of("Lamp", "12.50"));
        products(2).changed(7);
        check(redis(0).countExistingKeys(List.of("product::7:name", "product::7:price")), 0L);
        check(redis(0).hasKey("product~lock"), false);
    }

    private static void cacheableRemembersWhatIsNotThere() throws Exception {
        LOADS.set(0);
        check(atOnce(process -> products(process).part(8, "name")), Collections.nCopies(THREADS, null));
        check(LOADS.get(), 1);
        check(where("product::8:name").get("bucket's encoding"), "listpack");
        check(redis(0).getExpire("product::8:name") > CacheConfig.ABSENT.toSeconds(), true);
        check(products(0).page(8), null);
        check(products(1).page(8), null);
        check(LOADS.get(), 2);
        check(redis(0).getExpire("page::8") <= CacheConfig.ABSENT.toSeconds(), true);
        products(0).changed(8);
        LOADS.set(0);
    }

    private static void manyRequestsAreOneLoad() throws Exception {
        check(atOnce(process -> bundles(process).get(7)), Collections.nCopies(THREADS, LAMP));
        check(LOADS.get(), 1);
        check(redis(0).hasKey("product::7:lock"), false);
    }

    private static void aBundleIsOneBucketAndOneRequest() throws Exception {
        String bucket = where("product::7:at").get("physical");
        for (String key : bundles(0).keys(7)) {
            check(where(key).get("physical"), bucket);
            check(where(key).get("bucket's encoding"), "listpack");
        }
        check(serverCalls(List.of("hmget", "evalsha", "eval"), () -> check(bundles(0).get(7), LAMP)), List.of(1L, 0L, 0L));
        // @Cacheable finds what bundles wrote.
        LOADS.set(0);
        check(products(1).part(7, "stock"), "3");
        check(LOADS.get(), 0);
    }

    private static void aStaleBundleIsAnsweredAndOneLoadsIt() throws Exception {
        Map<String, String> dearer = Map.of("name", "Lamp", "price", "13.00", "stock", "3");
        DATABASE.put(7L, dearer);
        whileOneLoads(process -> bundles(process, Bundles.FRESH.toMillis(), 0).get(7), LAMP, dearer);
        check(atOnce(process -> bundles(process).get(7)), Collections.nCopies(THREADS, dearer));
        check(LOADS.get(), 1);
    }

    private static void aRefreshComesEarlyByChanceAndOnce() throws Exception {
        // It took 20 s, and stays fresh for 600: 20 s · -ln(0.5) are far from the end, 20 s · -ln(1e-16) beyond it.
        Map<String, String> before = DATABASE.put(7L, LAMP);
        redis(0).opsForValue().set("product::7:at", (System.currentTimeMillis() + 600_000) + " 20000 1", Duration.ofSeconds(700));
        LOADS.set(0);
        check(atOnce(process -> bundles(process, 0, 0.5).get(7)), Collections.nCopies(THREADS, before));
        check(LOADS.get(), 0);
        whileOneLoads(process -> bundles(process, 0, 1 - 1e-16).get(7), before, LAMP);
    }

    private static void whatIsNotThereIsRemembered() throws Exception {
        LOADS.set(0);
        check(atOnce(process -> bundles(process).get(8)), Collections.nCopies(THREADS, null));
        check(LOADS.get(), 1);
        check(redis(0).getExpire("product::8:at") <= Bundles.ABSENT.toSeconds(), true);
        // What comes to be there is told at once by who makes it.
        DATABASE.put(8L, LAMP);
        bundles(0).forget(8);
        check(bundles(1).get(8), LAMP);
    }

    private static void theWholeExpiresAndIsForgotten() throws Exception {
        bundles(0).expire(7, Duration.ofSeconds(50));
        for (String key : bundles(0).keys(7)) {
            long left = redis(0).getExpire(key);
            check(left > 0 && left <= 50, true);
        }
        bundles(0).expire(7, Duration.ofMillis(50));
        comesToBe("no bundle", () -> redis(0).countExistingKeys(bundles(0).keys(7)) == 0);
        bundles(0).get(7);
        check(serverCalls(List.of("hmget", "hdel", "exec"), () -> check(bundles(0).forget(7), 4L)), List.of(1L, 1L, 1L));
        // Who held the lock and failed has given it back.
        try {
            new Bundles(redis(0), Products.PARTS, id -> { throw new ArithmeticException(); }, System::currentTimeMillis, () -> 0).get(7);
            throw new AssertionError("no error");
        } catch (ArithmeticException expected) {
            check(redis(0).hasKey("product::7:lock"), false);
        }
    }

    private interface Checks {
        void run() throws Exception;
    }

    /** What the server behind was asked to do meanwhile, of these commands. */
    private static List<Long> serverCalls(List<String> names, Checks work) throws Exception {
        List<Long> before = calls(names);
        work.run();
        List<Long> after = calls(names);
        List<Long> between = new ArrayList<>();
        for (int index = 0; index < names.size(); index++) {
            between.add(after.get(index) - before.get(index));
        }
        return between;
    }

    private static List<Long> calls(List<String> names) {
        Properties told = redis(0).execute((RedisCallback<Properties>) connection -> connection.serverCommands().info("commandstats"));
        return names.stream()
                .map(name -> told.getProperty("cmdstat_" + name, "calls=0,"))
                .map(line -> Long.valueOf(line.replaceAll("calls=(\\d+),.*", "$1")))
                .toList();
    }

    /** What `keyfold where` says of a key, of which only text is looked at. */
    private static Map<String, String> where(String key) throws Exception {
        Process said = new ProcessBuilder(System.getenv("KEYFOLD"), "where", "--json", System.getenv("KEYFOLD_SERVER"), key).start();
        String text = new String(said.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        check(said.waitFor(), 0);
        Map<String, String> told = new ConcurrentHashMap<>();
        var line = java.util.regex.Pattern.compile("^ *\"([^\"]*)\": \"(.*)\",?$", java.util.regex.Pattern.MULTILINE).matcher(text);
        while (line.find()) {
            told.put(line.group(1), line.group(2));
        }
        return told;
    }

    private static void comesToBe(String what, BooleanSupplier is) {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (!is.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("never came to be: " + what);
            }
        }
    }

    private static void check(Object is, Object expected) {
        if (!Objects.equals(is, expected)) {
            throw new AssertionError(is + " instead of " + expected);
        }
    }
}
