import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Queue;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.springframework.context.ApplicationListener;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.data.redis.core.RedisCallback;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.session.FindByIndexNameSessionRepository;
import org.springframework.session.MapSession;
import org.springframework.session.Session;
import org.springframework.session.SessionRepository;
import org.springframework.session.data.redis.RedisIndexedSessionRepository;
import org.springframework.session.events.AbstractSessionEvent;

/**
 * A session of Spring Session with the keyfold at KEYFOLD_ADDR, which has the layout beside this file; fails on the first wrong
 * answer. Each repository is tried on folded keys and, under a namespace that the layout doesn't name, on plain ones: both must
 * answer the same. Two contexts, each with its connections, stand for two processes.
 */
public final class Sessions {
    private static final String USER = FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME;
    private static final String FOLDED = "spring:session";
    private static final int THREADS = 16;
    private static final ExecutorService POOL = Executors.newFixedThreadPool(THREADS, work -> {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    });

    public static void main(String[] args) throws Exception {
        String address = System.getenv("KEYFOLD_ADDR");
        int colon = address.lastIndexOf(':');
        System.setProperty("redis.host", address.substring(0, colon));
        System.setProperty("redis.port", address.substring(colon + 1));
        codecsAreTrained();
        for (Class<?> kind : List.of(SessionConfigs.Plain.class, SessionConfigs.Indexed.class)) {
            for (boolean json : List.of(false, true)) {
                List<Object> plain = answers(kind, json, "plain");
                check(answers(kind, json, FOLDED), plain);
            }
        }
        System.out.println("Spring Session, both repositories, values serialized and as JSON: as it should be");
    }

    /** One process of an application, and what it is told of sessions. */
    private static final class Application implements AutoCloseable {
        final Queue<String> told = new ConcurrentLinkedQueue<>();
        final AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();
        final StringRedisTemplate redis;

        Application(Class<?> kind, boolean json, String namespace) {
            System.setProperty("sessions.namespace", namespace);
            context.register(SessionConfigs.Connections.class, kind);
            if (json) {
                context.register(SessionConfigs.Json.class);
            }
            context.addApplicationListener((ApplicationListener<AbstractSessionEvent>) event -> told.add(
                    event.getClass().getSimpleName() + " " + event.getSessionId() + " " + cart(event.getSession())));
            context.refresh();
            redis = context.getBean(StringRedisTemplate.class);
        }

        @SuppressWarnings("unchecked")
        SessionRepository<Session> sessions() {
            return context.getBean(SessionRepository.class);
        }

        @Override
        public void close() {
            context.close();
        }
    }

    private static Object cart(Session session) {
        return session == null ? "no session" : session.getAttribute("cart");
    }

    /** By sessions of both forms. Until then they are longer than the limit, and each has a key of its own. */
    private static void codecsAreTrained() throws Exception {
        try (var one = new Application(SessionConfigs.Indexed.class, false, FOLDED);
                var other = new Application(SessionConfigs.Indexed.class, true, FOLDED)) {
            for (int number = 0; number < 500; number++) {
                begin(one, "ann" + number % 200);
                begin(other, "ben" + number % 200);
            }
            Process said = new ProcessBuilder(System.getenv("KEYFOLD"), "train", server(one)).redirectErrorStream(true).start();
            String text = new String(said.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            check(said.waitFor() == 0 ? "" : text, "");
        }
    }

    private static List<Object> answers(Class<?> kind, boolean json, String namespace) throws Exception {
        try (var one = new Application(kind, json, namespace); var other = new Application(kind, json, namespace)) {
            one.redis.execute((RedisCallback<Void>) connection -> {
                connection.serverCommands().flushAll();
                return null;
            });
            List<Object> answers = new ArrayList<>(whatOneWritesTheOtherReads(one, other, namespace));
            answers.addAll(manyRequestsOfOneSession(one, other));
            answers.addAll(sessionsEnd(one, other, namespace));
            if (kind == SessionConfigs.Indexed.class) {
                answers.addAll(sessionsAreFoundByTheirUser(one, other));
                answers.addAll(bothAreToldOfSessions(one, other));
            }
            return answers;
        }
    }

    private static Session begin(Application at, String user) {
        var session = at.sessions().createSession();
        session.setAttribute(USER, user);
        session.setAttribute("cart", "lamp");
        at.sessions().save(session);
        return session;
    }

    private static List<Object> whatOneWritesTheOtherReads(Application one, Application other, String namespace) throws Exception {
        String id = begin(one, "ann").getId();
        String key = namespace + ":sessions:" + id;
        if (namespace.equals(FOLDED)) {
            Map<String, String> told = where(one, key);
            check(told.get("namespace") + ", " + told.get("type"), "spring:session:sessions:{id:uuid}, hash");
            check(told.get("bucket's encoding") + ", " + told.get("frame").split(",")[0], "listpack, coded");
        }
        List<Object> answers = new ArrayList<>(List.of(one.redis.type(key), one.redis.opsForHash().size(key)));
        var seen = other.sessions().findById(id);
        answers.addAll(List.of(new TreeSet<>(seen.getAttributeNames()), cart(seen), seen.getMaxInactiveInterval()));
        seen.setAttribute("cart", "chair");
        seen.setAttribute("note", "x".repeat(2000));
        seen.removeAttribute(USER);
        other.sessions().save(seen);
        answers.addAll(List.of(cart(one.sessions().findById(id)), new TreeSet<>(one.sessions().findById(id).getAttributeNames())));
        seen.removeAttribute("note");
        other.sessions().save(seen);
        answers.add(new TreeSet<>(one.sessions().findById(id).getAttributeNames()));
        // The key is renamed, as upon a login.
        String changed = seen.changeSessionId();
        other.sessions().save(seen);
        answers.add(one.sessions().findById(id) == null);
        answers.add(cart(one.sessions().findById(changed)));
        one.sessions().deleteById(changed);
        answers.add(other.sessions().findById(changed) == null);
        return answers;
    }

    /** Each writes an attribute of its own: none is lost. */
    private static List<Object> manyRequestsOfOneSession(Application one, Application other) throws Exception {
        String id = begin(one, "ben").getId();
        CyclicBarrier barrier = new CyclicBarrier(THREADS);
        List<Future<Void>> futures = new ArrayList<>();
        for (int number = 0; number < THREADS; number++) {
            String name = "page" + number;
            Application at = number % 2 == 0 ? one : other;
            futures.add(POOL.submit((Callable<Void>) () -> {
                var session = at.sessions().findById(id);
                barrier.await();
                session.setAttribute(name, name);
                at.sessions().save(session);
                return null;
            }));
        }
        for (Future<Void> future : futures) {
            future.get();
        }
        var names = one.sessions().findById(id).getAttributeNames();
        one.sessions().deleteById(id);
        return List.of(names.size(), new TreeSet<>(names));
    }

    private static List<Object> sessionsEnd(Application one, Application other, String namespace) throws Exception {
        var session = begin(one, "cid");
        long left = one.redis.getExpire(namespace + ":sessions:" + session.getId());
        boolean isIndexed = one.context.getBeansOfType(RedisIndexedSessionRepository.class).size() == 1;
        // With an index the hash outlives the session by five minutes, for those who are told of its end.
        long expected = MapSession.DEFAULT_MAX_INACTIVE_INTERVAL_SECONDS + (isIndexed ? 300 : 0);
        check(expected - 60 < left && left <= expected, true);
        if (!isIndexed) {
            session.setMaxInactiveInterval(Duration.ofSeconds(1));
            one.sessions().save(session);
            comesToBe("no session", () -> other.sessions().findById(session.getId()) == null);
        }
        List<Object> answers = new ArrayList<>();
        // One that was deleted meanwhile is not brought back by who still has it.
        var deleted = begin(one, "cid");
        other.sessions().deleteById(deleted.getId());
        deleted.setAttribute("cart", "table");
        try {
            one.sessions().save(deleted);
            answers.add("saved");
        } catch (IllegalStateException error) {
            answers.add(error.getMessage());
        }
        answers.add(other.sessions().findById(deleted.getId()) == null);
        return answers;
    }

    private static Map<String, ? extends Session> of(Application at, String user) {
        return at.context.getBean(RedisIndexedSessionRepository.class).findByPrincipalName(user);
    }

    private static List<Object> sessionsAreFoundByTheirUser(Application one, Application other) {
        List<String> ids = List.of(begin(one, "dora").getId(), begin(other, "dora").getId(), begin(other, "eve").getId());
        List<Object> answers = new ArrayList<>();
        check(of(one, "dora").keySet(), new HashSet<>(ids.subList(0, 2)));
        var moved = one.sessions().findById(ids.get(0));
        moved.setAttribute(USER, "eve");
        one.sessions().save(moved);
        answers.addAll(List.of(of(other, "dora").size(), of(other, "eve").size()));
        moved.changeSessionId();
        one.sessions().save(moved);
        answers.addAll(List.of(of(other, "eve").containsKey(moved.getId()), of(other, "eve").containsKey(ids.get(0))));
        for (String id : List.of(moved.getId(), ids.get(1), ids.get(2))) {
            other.sessions().deleteById(id);
        }
        answers.addAll(List.of(of(one, "dora").size(), of(one, "eve").size()));
        return answers;
    }

    /** Keyspace notifications of folded keys: a session's end is told with what it held. */
    private static List<Object> bothAreToldOfSessions(Application one, Application other) {
        List<Object> answers = new ArrayList<>();
        var deleted = begin(one, "fay");
        one.sessions().deleteById(deleted.getId());
        var expired = begin(other, "fay");
        expired.setMaxInactiveInterval(Duration.ofSeconds(1));
        other.sessions().save(expired);
        for (Application at : List.of(one, other)) {
            for (String event : List.of(
                    "SessionCreatedEvent " + deleted.getId(),
                    "SessionDeletedEvent " + deleted.getId(),
                    "SessionCreatedEvent " + expired.getId(),
                    "SessionExpiredEvent " + expired.getId())) {
                comesToBe(event, () -> at.told.stream().anyMatch(it -> it.startsWith(event)));
                answers.add(at.told.stream()
                        .filter(it -> it.startsWith(event))
                        .map(it -> it.replaceAll(" [0-9a-f-]{36} ", " "))
                        .toList());
            }
        }
        answers.add(of(one, "fay").size());
        return answers;
    }

    /** The server behind. */
    private static String server(Application at) {
        return at.redis
                .execute((RedisCallback<Properties>) connection -> connection.serverCommands().info("keyfold"))
                .getProperty("keyfold_server");
    }

    /** What `keyfold where` says of a key, of which only text is looked at. */
    private static Map<String, String> where(Application at, String key) throws Exception {
        Process said = new ProcessBuilder(System.getenv("KEYFOLD"), "where", "--json", server(at), key).start();
        String text = new String(said.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        check(said.waitFor(), 0);
        Map<String, String> told = new ConcurrentHashMap<>();
        Matcher line = Pattern.compile("^ *\"([^\"]*)\": \"(.*)\",?$", Pattern.MULTILINE).matcher(text);
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
