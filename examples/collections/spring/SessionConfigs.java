import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.serializer.GenericJacksonJsonRedisSerializer;
import org.springframework.data.redis.serializer.RedisSerializer;
import org.springframework.session.data.redis.config.annotation.web.http.EnableRedisHttpSession;
import org.springframework.session.data.redis.config.annotation.web.http.EnableRedisIndexedHttpSession;

/** Spring Session as an application has it: sessions alone, sessions that are also found by their user, and values as JSON. */
final class SessionConfigs {
    private SessionConfigs() {}

    /** `redis.host` and `redis.port` say where keyfold, or a server, is. */
    @Configuration(proxyBeanMethods = false)
    static class Connections {
        @Bean
        LettuceConnectionFactory connections() {
            String host = System.getProperty("redis.host", "127.0.0.1");
            return new LettuceConnectionFactory(
                    new RedisStandaloneConfiguration(host, Integer.getInteger("redis.port", 6380)));
        }

        @Bean
        StringRedisTemplate redis(LettuceConnectionFactory connections) {
            return new StringRedisTemplate(connections);
        }
    }

    /** Values in JSON in place of Java's own serialization, which takes three times as much. */
    @Configuration(proxyBeanMethods = false)
    static class Json {
        @Bean
        RedisSerializer<Object> springSessionDefaultRedisSerializer() {
            return GenericJacksonJsonRedisSerializer.builder().build();
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableRedisHttpSession(redisNamespace = "${sessions.namespace:spring:session}")
    static class Plain {}

    @Configuration(proxyBeanMethods = false)
    @EnableRedisIndexedHttpSession(redisNamespace = "${sessions.namespace:spring:session}")
    static class Indexed {}
}
