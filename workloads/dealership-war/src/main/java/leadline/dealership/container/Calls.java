package leadline.dealership.container;

import java.util.Locale;

/** By which interface servlets call session beans, chosen by the system property {@value #PROPERTY}. */
enum Calls {
    LOCAL("", "leadline.dealership.domain.Dealership"),
    /** Arguments and results by value, unless the server is told to pass references. */
    REMOTE("Remote", "leadline.dealership.remote.RemoteDealership");

    static final String PROPERTY = "dealership.calls";

    private final String prefix;
    private final String view;

    Calls(String prefix, String view) {
        this.prefix = prefix;
        this.view = view;
    }

    static Calls configured(Mode mode) {
        String word = System.getProperty(PROPERTY, "local");
        for (Calls calls : values()) {
            if (calls.word().equals(word)) {
                if (calls == REMOTE && mode == Mode.DIRECT) {
                    throw new IllegalStateException("the system property " + PROPERTY
                            + " is \"remote\", but mode direct calls no session bean; use mode session");
                }
                return calls;
            }
        }
        throw new IllegalStateException(
                "the system property " + PROPERTY + " is \"" + word + "\"; it must be local or remote");
    }

    String word() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** Where a bean of this module is found by this interface. */
    String nameOf(String bean) {
        return "java:module/" + prefix + bean + "!" + view;
    }
}
