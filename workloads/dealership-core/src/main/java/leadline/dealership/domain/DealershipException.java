package leadline.dealership.domain;

/** A request that cannot be done, with a message for the person who made it. The transaction is rolled back. */
public final class DealershipException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Why, as the kind of answer it leads to. */
    public enum Kind {
        BAD_REQUEST,
        UNAUTHORIZED,
        NOT_FOUND,
        CONFLICT
    }

    private final Kind kind;

    public DealershipException(Kind kind, String message) {
        super(message, null, false, false);
        this.kind = kind;
    }

    public static DealershipException bad(String message) {
        return new DealershipException(Kind.BAD_REQUEST, message);
    }

    public static DealershipException notFound(String message) {
        return new DealershipException(Kind.NOT_FOUND, message);
    }

    public static DealershipException conflict(String message) {
        return new DealershipException(Kind.CONFLICT, message);
    }

    public static DealershipException unauthorized(String message) {
        return new DealershipException(Kind.UNAUTHORIZED, message);
    }

    public Kind kind() {
        return kind;
    }
}
