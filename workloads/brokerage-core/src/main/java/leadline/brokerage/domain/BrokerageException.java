package leadline.brokerage.domain;

/** A request that cannot be done, with a message for the person who made it. The transaction is rolled back. */
public final class BrokerageException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Why, as the kind of answer it leads to. */
    public enum Kind {
        BAD_REQUEST,
        UNAUTHORIZED,
        NOT_FOUND,
        CONFLICT
    }

    private final Kind kind;

    public BrokerageException(Kind kind, String message) {
        super(message, null, false, false);
        this.kind = kind;
    }

    public static BrokerageException bad(String message) {
        return new BrokerageException(Kind.BAD_REQUEST, message);
    }

    public static BrokerageException notFound(String message) {
        return new BrokerageException(Kind.NOT_FOUND, message);
    }

    public static BrokerageException conflict(String message) {
        return new BrokerageException(Kind.CONFLICT, message);
    }

    public static BrokerageException unauthorized(String message) {
        return new BrokerageException(Kind.UNAUTHORIZED, message);
    }

    public Kind kind() {
        return kind;
    }
}
