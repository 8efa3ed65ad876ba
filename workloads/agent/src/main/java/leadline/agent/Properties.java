package leadline.agent;

/** Properties of an application by its framework's names. */
interface Properties {
    /** The level in force; durations in seconds, sizes in bytes. */
    Object read(String property) throws ReflectiveOperationException;

    /** Has what runs take {@code PROPERTY=VALUE}. */
    void change(String asked) throws ReflectiveOperationException;
}
