package leadline.dealership.tools;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A purchase order as the supplier gets and delivers it: parts and how many of each. */
record Order(long id, TreeMap<String, Integer> parts) {
    /**
     * Reads {"order": n, "lines": [{"part": "P00001", "quantity": n}, ...]}.
     *
     * @throws IOException with what is wrong
     */
    static Order parse(byte[] json) throws IOException {
        Map<String, Object> document = JSON.std.mapFrom(json);
        if (!(document.get("order") instanceof Number id)
                || !(document.get("lines") instanceof List<?> lines)
                || lines.isEmpty()) {
            throw new IOException("the document must be {\"order\": n, \"lines\": [{\"part\", \"quantity\"}, ...]}");
        }
        TreeMap<String, Integer> parts = new TreeMap<>();
        for (Object line : lines) {
            if (!(line instanceof Map<?, ?> fields)
                    || !(fields.get("part") instanceof String part)
                    || !(fields.get("quantity") instanceof Integer quantity)
                    || quantity < 1
                    || parts.put(part, quantity) != null) {
                throw new IOException("lines must name each part once, with a quantity of 1 or more, got " + line);
            }
        }
        return new Order(id.longValue(), parts);
    }

    String json() {
        Map<String, Object> document = new LinkedHashMap<>();
        document.put("order", id);
        document.put(
                "lines",
                parts.entrySet().stream()
                        .map(part -> {
                            Map<String, Object> line = new LinkedHashMap<>();
                            line.put("part", part.getKey());
                            line.put("quantity", part.getValue());
                            return line;
                        })
                        .toList());
        try {
            return JSON.std.asString(document);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
