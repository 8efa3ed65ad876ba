package leadline.dealership.web;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import leadline.dealership.domain.DealershipException;
import leadline.dealership.domain.PartLine;
import leadline.dealership.domain.ScheduleCommand;

/** Reads commands from the JSON object a request carries. */
final class JsonBody {
    private static final int LONGEST = 65_536;

    private final Map<String, Object> fields;

    private JsonBody(Map<String, Object> fields) {
        this.fields = fields;
    }

    /** The body; BAD_REQUEST when it is not one JSON object of at most 64 KiB. */
    static JsonBody of(InputStream body) throws IOException {
        byte[] bytes = body.readNBytes(LONGEST + 1);
        if (bytes.length > LONGEST) {
            throw DealershipException.bad("the body is longer than " + LONGEST + " bytes");
        }
        try {
            return new JsonBody(JSON.std.mapFrom(bytes));
        } catch (JsonProcessingException e) {
            throw DealershipException.bad("the body must be a JSON object");
        }
    }

    private static String text(Map<?, ?> fields, String name) {
        Object value = fields.get(name);
        if (value == null || value instanceof String) {
            return (String) value;
        }
        throw DealershipException.bad(name + " must be a string");
    }

    private static String required(Map<?, ?> fields, String name) {
        String value = text(fields, name);
        if (value == null || value.isEmpty()) {
            throw DealershipException.bad(name + " is missing");
        }
        return value;
    }

    private static long number(Map<?, ?> fields, String name) {
        Object value = fields.get(name);
        if (value == null) {
            throw DealershipException.bad(name + " is missing");
        }
        if (value instanceof Integer || value instanceof Long) {
            return ((Number) value).longValue();
        }
        throw DealershipException.bad(name + " must be a whole number");
    }

    ScheduleCommand schedule() {
        return new ScheduleCommand(text(fields, "command"), required(fields, "model"), quantity());
    }

    int quantity() {
        return quantity(number(fields, "quantity"));
    }

    static int quantity(long quantity) {
        return (int) Math.max(Integer.MIN_VALUE, Math.min(Integer.MAX_VALUE, quantity));
    }

    long order() {
        return number(fields, "order");
    }

    List<PartLine> lines() {
        if (!(fields.get("lines") instanceof List<?> list) || list.isEmpty()) {
            throw DealershipException.bad("lines must be a list of objects with part and quantity");
        }
        List<PartLine> out = new ArrayList<>();
        for (Object each : list) {
            if (!(each instanceof Map<?, ?> line)) {
                throw DealershipException.bad("lines must be a list of objects with part and quantity");
            }
            out.add(new PartLine(required(line, "part"), quantity(number(line, "quantity"))));
        }
        return out;
    }
}
