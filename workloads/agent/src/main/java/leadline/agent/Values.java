package leadline.agent;

import java.lang.reflect.Array;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.management.openmbean.CompositeData;

/** Turns what servers hand out into what {@link Json} writes. */
final class Values {
    private Values() {}

    static Object plain(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return value;
        }
        if (value instanceof CompositeData data) {
            Map<String, Object> fields = new LinkedHashMap<>();
            for (String key : data.getCompositeType().keySet()) {
                fields.put(key, plain(data.get(key)));
            }
            return fields;
        }
        if (value instanceof Collection<?> items) {
            return items.stream().map(Values::plain).toList();
        }
        if (value.getClass().isArray()) {
            List<Object> items = new ArrayList<>();
            for (int i = 0; i < Array.getLength(value); i++) {
                items.add(plain(Array.get(value, i)));
            }
            return items;
        }
        return value.toString();
    }
}
