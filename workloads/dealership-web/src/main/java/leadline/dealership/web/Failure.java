package leadline.dealership.web;

import java.util.UUID;
import java.util.logging.Level;
import java.util.logging.Logger;
import leadline.common.ModeUnavailable;
import leadline.dealership.domain.DealershipException;

/** A failure as the caller sees it: no inner detail, only a number to find it in the log. */
record Failure(int status, String message) {
    private static final Logger LOG = Logger.getLogger(Failure.class.getName());

    /** Turns what went wrong into a status; {@code request}: its method and address, for the log. */
    static Failure of(RuntimeException thrown, String request) {
        // A container may wrap what a bean throws.
        for (Throwable t = thrown; t != null; t = t.getCause()) {
            if (t instanceof DealershipException e) {
                return new Failure(status(e.kind()), e.getMessage());
            }
        }
        if (thrown instanceof ModeUnavailable) {
            return new Failure(503, thrown.getMessage());
        }
        String incident = UUID.randomUUID().toString().substring(0, 8);
        LOG.log(Level.SEVERE, thrown, () -> "incident " + incident + ": " + request);
        return new Failure(500, "internal error; the server's log tells more under incident " + incident);
    }

    private static int status(DealershipException.Kind kind) {
        return switch (kind) {
            case BAD_REQUEST -> 400;
            case UNAUTHORIZED -> 401;
            case NOT_FOUND -> 404;
            case CONFLICT -> 409;
        };
    }
}
