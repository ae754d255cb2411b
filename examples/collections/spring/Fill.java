import java.util.Random;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.session.FindByIndexNameSessionRepository;
import org.springframework.session.Session;
import org.springframework.session.SessionRepository;

/** Writes sessions of two attributes: java Fill plain|indexed java|json COUNT */
public final class Fill {
    public static void main(String[] args) {
        Class<?> kind = args[0].equals("plain") ? SessionConfigs.Plain.class : SessionConfigs.Indexed.class;
        try (var context = new AnnotationConfigApplicationContext()) {
            context.register(SessionConfigs.Connections.class, kind);
            if (args[1].equals("json")) context.register(SessionConfigs.Json.class);
            context.refresh();
            // Sessions are found by what this attribute has, where there is an index.
            String user = args[0].equals("plain") ? "user" : FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME;
            SessionRepository<?> sessions = context.getBean(SessionRepository.class);
            fill(sessions, user, Integer.parseInt(args[2]));
        }
    }

    private static <S extends Session> void fill(SessionRepository<S> sessions, String user, int count) {
        Random random = new Random(1);
        for (int number = 0; number < count; number++) {
            S session = sessions.createSession();
            session.setAttribute(user, "user" + random.nextInt(count));
            session.setAttribute("csrf", Long.toHexString(random.nextLong()));
            sessions.save(session);
        }
    }
}
