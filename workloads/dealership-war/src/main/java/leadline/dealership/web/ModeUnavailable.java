package leadline.dealership.web;

/** This server lacks what the chosen mode needs; the message says what. */
final class ModeUnavailable extends RuntimeException {
    private static final long serialVersionUID = 1L;

    ModeUnavailable(String message, Throwable cause) {
        super(message, cause);
    }
}
