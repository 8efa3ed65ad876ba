package leadline.common;

import java.io.Serial;
import java.io.Serializable;
import java.time.LocalDateTime;

/** A time or a constant of an enumeration as text: their own serial forms are proxies, which not every ORB follows. */
final class Text implements Serializable {
    @Serial
    private static final long serialVersionUID = 1L;

    /** Name of the enumeration; null for a time. */
    private final String type;

    private final String text;

    private Text(String type, String text) {
        this.type = type;
        this.text = text;
    }

    static Text of(Object value) {
        return value instanceof Enum<?> constant
                ? new Text(constant.getDeclaringClass().getName(), constant.name())
                : new Text(null, value.toString());
    }

    Object value() throws ClassNotFoundException {
        if (type == null) {
            return LocalDateTime.parse(text);
        }
        Class<?> found = Class.forName(type, true, Text.class.getClassLoader());
        for (Object constant : found.isEnum() ? found.getEnumConstants() : new Object[0]) {
            if (((Enum<?>) constant).name().equals(text)) {
                return constant;
            }
        }
        throw new ClassNotFoundException(type + " has no constant " + text);
    }
}
