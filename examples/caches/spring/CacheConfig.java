import java.time.Duration;
import org.springframework.cache.CacheManager;
import org.springframework.cache.annotation.EnableCaching;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.data.redis.cache.RedisCacheConfiguration;
import org.springframework.data.redis.cache.RedisCacheManager;
import org.springframework.data.redis.cache.RedisCacheWriter;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.serializer.RedisSerializationContext.SerializationPair;
import org.springframework.data.redis.serializer.RedisSerializer;

/** Spring's cache of products, whose parts are text. */
@Configuration
@EnableCaching
class CacheConfig {
    static final Duration FRESH = Duration.ofMinutes(10);
    /** As long is remembered that there is none. With sync = true the writer doesn't know that yet, and FRESH counts. */
    static final Duration ABSENT = Duration.ofSeconds(5);
    /** Longer than any load takes. By default the lock of a process that died is never given back. */
    static final Duration LOCK = Duration.ofSeconds(10);

    @Bean
    LettuceConnectionFactory connections(Environment environment) {
        return new LettuceConnectionFactory(
                environment.getProperty("redis.host", "127.0.0.1"), environment.getProperty("redis.port", Integer.class, 6380));
    }

    @Bean
    CacheManager caches(RedisConnectionFactory connections) {
        RedisCacheWriter writer = RedisCacheWriter.create(
                connections,
                it -> it.immediateWrites().enableLocking(lock -> lock.sleepTime(Duration.ofMillis(10))
                        .lockTimeout((key, value) -> LOCK)));
        RedisCacheConfiguration config = RedisCacheConfiguration.defaultCacheConfig()
                .serializeValuesWith(SerializationPair.fromSerializer(RedisSerializer.string()));
        return RedisCacheManager.builder(writer)
                .withCacheConfiguration("product", config.entryTtl(FRESH))
                .withCacheConfiguration("page", config.entryTtl((key, value) -> value == null ? ABSENT : FRESH))
                .build();
    }

    @Bean
    StringRedisTemplate template(RedisConnectionFactory connections) {
        return new StringRedisTemplate(connections);
    }
}
