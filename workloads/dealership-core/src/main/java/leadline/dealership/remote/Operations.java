package leadline.dealership.remote;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import leadline.common.Parcel;
import leadline.dealership.domain.Dealership;

/** The operations by their names, for beans with the remote interface. */
public final class Operations {
    private static final Map<String, Method> BY_NAME = byName();

    private Operations() {}

    private static Map<String, Method> byName() {
        Map<String, Method> found = new HashMap<>();
        for (Method method : Dealership.class.getMethods()) {
            found.put(method.getName(), method);
        }
        return found;
    }

    /** As {@link RemoteDealership#call} on {@code work}; an IllegalArgumentException for an unknown name. */
    public static Parcel<Object> call(Dealership work, String operation, Parcel<List<Object>> arguments) {
        Method method = BY_NAME.get(operation);
        if (method == null) {
            throw new IllegalArgumentException("no operation " + operation);
        }
        try {
            Object result = method.invoke(work, arguments.open().toArray());
            return Parcel.of(result instanceof Optional<?> optional ? optional.orElse(null) : result);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof RuntimeException thrown) {
                throw thrown;
            }
            throw new IllegalStateException(e.getCause());
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }
}
