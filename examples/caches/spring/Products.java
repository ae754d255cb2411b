import java.util.List;
import org.springframework.cache.annotation.CacheEvict;
import org.springframework.cache.annotation.Cacheable;
import org.springframework.cache.annotation.Caching;

/** Products, each part of which is an entry of its own: product::7:name. */
class Products {
    static final List<String> PARTS = List.of("name", "price", "stock");

    /** Where the parts are from. */
    interface Database {
        /** null where there is no such product. */
        String part(long id, String part);
    }

    private final Database database;

    Products(Database database) {
        this.database = database;
    }

    /**
     * With {@code sync} one of all who want a part loads it: in this process, and with a locking writer in all of them. That there
     * is none is an entry too.
     */
    @Cacheable(cacheNames = "product", key = "#id + ':' + #part", sync = true)
    public String part(long id, String part) {
        return database.part(id, part);
    }

    /** Without {@code sync} many may load it at once, and the time that an entry lives may depend on what was loaded. */
    @Cacheable(cacheNames = "page", key = "#id")
    public String page(long id) {
        String name = database.part(id, "name");
        return name == null ? null : "<h1>" + name + "</h1>";
    }

    @Caching(evict = {
        @CacheEvict(cacheNames = "product", key = "#id + ':name'"),
        @CacheEvict(cacheNames = "product", key = "#id + ':price'"),
        @CacheEvict(cacheNames = "product", key = "#id + ':stock'")
    })
    public void changed(long id) {}
}
