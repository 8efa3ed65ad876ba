package leadline.agent;

import java.lang.instrument.Instrumentation;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Services and classes of an OSGi framework in this JVM (OSGi Core), by reflection as the agent belongs to no bundle. */
final class Osgi {
    private final Instrumentation instrumentation;

    /** {@code instrumentation} may be null: then there is no framework. */
    Osgi(Instrumentation instrumentation) {
        this.instrumentation = instrumentation;
    }

    /** Every service of a type; empty without a framework. */
    List<Object> services(String type) throws ReflectiveOperationException {
        List<Object> found = new ArrayList<>();
        Optional<Object> context = context();
        if (context.isEmpty()) {
            return found;
        }
        Method all = context.get().getClass().getMethod("getAllServiceReferences", String.class, String.class);
        all.setAccessible(true);
        Object references = all.invoke(context.get(), type, null);
        for (int i = 0; references != null && i < Array.getLength(references); i++) {
            Object service = service(context.get(), Array.get(references, i));
            if (service != null) {
                found.add(service);
            }
        }
        return found;
    }

    /** The system bundle's context, which may see every service. */
    private Optional<Object> context() throws ReflectiveOperationException {
        if (instrumentation == null) {
            return Optional.empty();
        }
        for (Class<?> type : instrumentation.getAllLoadedClasses()) {
            if (!type.getName().equals("org.osgi.framework.FrameworkUtil")) {
                continue;
            }
            // The framework's own loader answers for itself where a bundle is asked for by a class.
            for (Class<?> owned : instrumentation.getAllLoadedClasses()) {
                Object bundle = owned.getClassLoader() != null
                                && owned.getClassLoader().getClass().getName().startsWith("org.eclipse.osgi")
                        ? type.getMethod("getBundle", Class.class).invoke(null, owned)
                        : null;
                Object context = bundle == null ? null : call(bundle, "getBundleContext");
                if (context != null) {
                    return Optional.of(context);
                }
            }
        }
        return Optional.empty();
    }

    /** A class that this JVM has loaded. */
    Class<?> loaded(String name) throws ClassNotFoundException {
        if (instrumentation != null) {
            for (Class<?> type : instrumentation.getAllLoadedClasses()) {
                if (type.getName().equals(name)) {
                    return type;
                }
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static Object service(Object context, Object reference) throws ReflectiveOperationException {
        for (Method method : context.getClass().getMethods()) {
            if (method.getName().equals("getService") && method.getParameterCount() == 1) {
                method.setAccessible(true);
                return method.invoke(context, reference);
            }
        }
        throw new NoSuchMethodException("getService");
    }

    static Object call(Object target, String name) throws ReflectiveOperationException {
        Method method = target.getClass().getMethod(name);
        method.setAccessible(true);
        return method.invoke(target);
    }

    /** A field of {@code target}'s class or of one above it. */
    static Object field(Object target, String name) throws ReflectiveOperationException {
        for (Class<?> type = target.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(target);
            } catch (NoSuchFieldException above) {
                continue;
            }
        }
        throw new NoSuchFieldException(target.getClass().getName() + "." + name);
    }
}
