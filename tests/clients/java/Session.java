import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;
import java.util.stream.IntStream;

/** What the sessions share: the server or keyfolds, and how answers are checked. */
final class Session {
    static final int USERS = 1000;
    static final List<String> NAMES = IntStream.range(0, USERS).mapToObj(number -> "user:" + number).toList();
    static final List<String> NUMBERS = IntStream.range(0, USERS).mapToObj(Integer::toString).toList();
    static final List<String> ADDRESSES =
            Arrays.asList(System.getenv().getOrDefault("KEYFOLD_ADDRS", System.getenv("KEYFOLD_ADDR")).split(","));

    private Session() {}

    static String host(String address) {
        return address.substring(0, address.lastIndexOf(':'));
    }

    static int port(String address) {
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    static void check(Object actual, Object expected) {
        if (!Objects.equals(actual, expected)) {
            throw new AssertionError("got " + actual + ", not " + expected);
        }
    }

    /** Kills the second keyfold: the first has all slots then. */
    static void killTheSecond() {
        long pid = Long.parseLong(System.getenv("KEYFOLD_PIDS").split(",")[1]);
        ProcessHandle.of(pid).orElseThrow().destroyForcibly();
    }

    /** Asks until there is an answer, for half a minute. */
    static <T> T eventually(Supplier<T> ask) throws InterruptedException {
        long deadline = System.nanoTime() + 30_000_000_000L;
        while (true) {
            try {
                return ask.get();
            } catch (RuntimeException error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
                Thread.sleep(100);
            }
        }
    }
}
