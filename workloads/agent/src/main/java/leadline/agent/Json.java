package leadline.agent;

import java.util.Collection;
import java.util.Map;

/** Writes maps, collections, numbers, booleans and text as JSON (RFC 8259). */
final class Json {
    private Json() {}

    static String write(Object value) {
        StringBuilder out = new StringBuilder(4096);
        append(out, value);
        return out.toString();
    }

    private static void append(StringBuilder out, Object value) {
        if (value == null) {
            out.append("null");
        } else if (value instanceof Map<?, ?> map) {
            appendMap(out, map);
        } else if (value instanceof Collection<?> items) {
            appendItems(out, items);
        } else if (value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Double || value instanceof Float) {
            double number = ((Number) value).doubleValue();
            // JSON has no words for these.
            out.append(Double.isFinite(number) ? String.valueOf(number) : "null");
        } else if (value instanceof Number) {
            out.append(value);
        } else {
            appendText(out, value.toString());
        }
    }

    private static void appendMap(StringBuilder out, Map<?, ?> map) {
        out.append('{');
        String separator = "";
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            out.append(separator);
            appendText(out, String.valueOf(entry.getKey()));
            out.append(':');
            append(out, entry.getValue());
            separator = ",";
        }
        out.append('}');
    }

    private static void appendItems(StringBuilder out, Collection<?> items) {
        out.append('[');
        String separator = "";
        for (Object item : items) {
            out.append(separator);
            append(out, item);
            separator = ",";
        }
        out.append(']');
    }

    private static void appendText(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
