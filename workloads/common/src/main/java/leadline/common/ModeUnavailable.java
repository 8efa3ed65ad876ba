package leadline.common;

/** This server lacks what the chosen mode needs; the message says what. */
public final class ModeUnavailable extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public ModeUnavailable(String message, Throwable cause) {
        super(message, cause);
    }
}
