package leadline.dealership.web;

import com.fasterxml.jackson.jr.ob.JSON;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.UUID;
import java.util.logging.Level;
import java.util.logging.Logger;
import leadline.common.Html;
import leadline.common.ModeUnavailable;
import leadline.dealership.domain.DealershipException;

/** Sends answers whole, with their length, and turns what went wrong into a status. */
final class Replies {
    static final int SEE_OTHER = 303;
    private static final Logger LOG = Logger.getLogger(Replies.class.getName());
    // By default jackson-jr leaves out what is null: then an answer's names depend on its values.
    private static final JSON WITH_NULLS = JSON.std.with(JSON.Feature.WRITE_NULL_PROPERTIES);

    /** A failure as the caller sees it: no inner detail, only a number to find it in the log. */
    record Failure(int status, String message) {}

    private Replies() {}

    static void page(HttpServletResponse response, int status, Html page) throws IOException {
        response.setHeader("Content-Security-Policy", Layout.CONTENT_SECURITY_POLICY);
        response.setHeader("Referrer-Policy", "same-origin");
        send(response, status, "text/html;charset=UTF-8", page.toString().getBytes(StandardCharsets.UTF_8));
    }

    static void json(HttpServletResponse response, int status, Map<String, ?> value) throws IOException {
        send(response, status, "application/json;charset=UTF-8", json(value));
    }

    /** The value in UTF-8; what is null is stated. */
    static byte[] json(Map<String, ?> value) throws IOException {
        return WITH_NULLS.asBytes(value);
    }

    static void redirect(HttpServletRequest request, HttpServletResponse response, String path) {
        response.setStatus(SEE_OTHER);
        response.setHeader("Location", request.getContextPath() + path);
        response.setHeader("Cache-Control", "no-store");
        response.setContentLength(0);
    }

    private static void send(HttpServletResponse response, int status, String type, byte[] body) throws IOException {
        response.setStatus(status);
        response.setContentType(type);
        response.setHeader("Cache-Control", "no-store");
        response.setHeader("X-Content-Type-Options", "nosniff");
        response.setContentLength(body.length);
        response.getOutputStream().write(body);
    }

    static Failure failure(HttpServletRequest request, RuntimeException thrown) {
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
        LOG.log(
                Level.SEVERE,
                thrown,
                () -> "incident " + incident + ": " + request.getMethod() + " " + request.getRequestURI());
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
