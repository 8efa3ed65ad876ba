package leadline.agent;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Locale;

/** Getters and setters of objects whose classes are not known here. */
final class Reflection {
    private Reflection() {}

    /** {@code maximum-pool-size} of a bean: {@code getMaximumPoolSize}, {@code isMaximumPoolSize} or {@code maximumPoolSize}. */
    static Object get(Object target, String part) throws ReflectiveOperationException {
        if (target == null) {
            throw new NoSuchMethodException(part);
        }
        String name = camel(part);
        for (String prefix : new String[] {"get", "is"}) {
            try {
                return method(target, prefix + name, 0).invoke(target);
            } catch (NoSuchMethodException other) {
                continue;
            }
        }
        return method(target, name, 0).invoke(target);
    }

    /** Calls the setter of {@code part}; {@code text} as a number of the setter's own type, a duration in milliseconds. */
    static void set(Object target, String part, String text) throws ReflectiveOperationException {
        Method method = method(target, "set" + camel(part), 1);
        Class<?> type = method.getParameterTypes()[0];
        Object value = type == int.class
                ? (Object) Integer.valueOf(text)
                : type == Duration.class ? Duration.ofMillis(Long.parseLong(text)) : Long.valueOf(text);
        method.invoke(target, value);
    }

    /** A number that a getter returns; not a number where there is no such getter. */
    static double number(Object target, String part) {
        try {
            return get(target, part) instanceof Number number ? number.doubleValue() : Double.NaN;
        } catch (ReflectiveOperationException absent) {
            return Double.NaN;
        }
    }

    static Object call(Object target, String name, Class<?> type, Object argument) throws ReflectiveOperationException {
        Method method = target.getClass().getMethod(name, type);
        method.setAccessible(true);
        return method.invoke(target, argument);
    }

    /** Names differ in letters' case only: {@code jdbc-url} is getJdbcUrl, {@code enabled-ssl} may be getEnabledSSL. */
    static Method method(Object target, String name, int parameters) throws NoSuchMethodException {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equalsIgnoreCase(name) && method.getParameterCount() == parameters) {
                method.setAccessible(true);
                return method;
            }
        }
        throw new NoSuchMethodException(target.getClass().getName() + "." + name);
    }

    private static String camel(String part) {
        StringBuilder name = new StringBuilder();
        for (String word : part.split("-")) {
            name.append(word.substring(0, 1).toUpperCase(Locale.ROOT)).append(word.substring(1));
        }
        return name.toString();
    }

    static Object plain(Object value) throws ReflectiveOperationException {
        if (value instanceof Duration duration) {
            return duration.toNanos() / 1e9;
        }
        if (value != null && value.getClass().getName().equals("org.springframework.util.unit.DataSize")) {
            return Osgi.call(value, "toBytes");
        }
        return value instanceof Enum<?> word ? word.name() : Values.plain(value);
    }

    /** What went wrong in the application, not in the call of it. */
    static Throwable cause(Exception error) {
        return error instanceof InvocationTargetException wrapped ? wrapped.getCause() : error;
    }
}
