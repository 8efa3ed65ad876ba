package leadline.common;

import java.io.IOException;
import java.io.InvalidObjectException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serial;
import java.io.Serializable;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;

/**
 * A value that may hold records and lists of them. It is taken apart only when something writes it to a stream: by
 * reference the value itself arrives.
 */
public final class Parcel<T> implements Serializable {
    @Serial
    private static final long serialVersionUID = 1L;

    private static final ClassValue<Shape> SHAPES = new ClassValue<>() {
        @Override
        protected Shape computeValue(Class<?> type) {
            return Shape.of(type);
        }
    };

    private static final LongAdder COPIES = new LongAdder();

    /** How to take a record apart and put it together. */
    private record Shape(Method[] accessors, Constructor<?> constructor) {
        static Shape of(Class<?> type) {
            RecordComponent[] parts = type.getRecordComponents();
            try {
                return new Shape(
                        Arrays.stream(parts).map(RecordComponent::getAccessor).toArray(Method[]::new),
                        type.getDeclaredConstructor(Arrays.stream(parts)
                                .map(RecordComponent::getType)
                                .toArray(Class<?>[]::new)));
            } catch (NoSuchMethodException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    private transient T value;

    private Parcel(T value) {
        this.value = value;
    }

    public static <T> Parcel<T> of(T value) {
        return new Parcel<>(value);
    }

    public T open() {
        return value;
    }

    /** How many values arrived here as copies since the application started; by reference none does. */
    public static long copies() {
        return COPIES.sum();
    }

    @Serial
    private void writeObject(ObjectOutputStream out) throws IOException {
        try {
            out.writeObject(apart(value));
        } catch (ReflectiveOperationException e) {
            throw new InvalidObjectException(e.toString());
        }
    }

    @Serial
    @SuppressWarnings("unchecked")
    private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
        COPIES.increment();
        try {
            value = (T) finalize(in.readObject());
        } catch (ReflectiveOperationException e) {
            throw new InvalidObjectException(e.toString());
        }
    }

    /** A list begins with null, a record with the name of its class. */
    private static Object apart(Object whole) throws ReflectiveOperationException {
        ArrayList<Object> out = new ArrayList<>();
        if (whole instanceof List<?> list) {
            out.add(null);
            for (Object each : list) {
                out.add(apart(each));
            }
        } else if (whole instanceof Record) {
            out.add(whole.getClass().getName());
            for (Method accessor : SHAPES.get(whole.getClass()).accessors()) {
                out.add(apart(accessor.invoke(whole)));
            }
        } else {
            return whole instanceof LocalDateTime || whole instanceof Enum<?> ? Text.of(whole) : whole;
        }
        return out;
    }

    /**
     * Puts together what was taken apart. GlassFish's ORB copies values field by field, which Java does not allow for
     * records, except those of a class with a method of this name: these it writes to a stream.
     */
    private static Object finalize(Object parts) throws ReflectiveOperationException {
        if (parts instanceof Text text) {
            return text.value();
        }
        if (!(parts instanceof ArrayList<?> list)) {
            return parts;
        }
        Object[] inside = new Object[list.size() - 1];
        for (int i = 0; i < inside.length; i++) {
            inside[i] = finalize(list.get(i + 1));
        }
        if (list.get(0) == null) {
            return List.of(inside);
        }
        Class<?> type = Class.forName((String) list.get(0), true, Parcel.class.getClassLoader());
        if (!type.isRecord()) {
            throw new ClassNotFoundException(type + " is no record");
        }
        return SHAPES.get(type).constructor().newInstance(inside);
    }
}
