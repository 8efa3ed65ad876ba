package leadline.dealership.web;

import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import leadline.common.Html;

/** Sends answers whole, with their length. */
final class Replies {
    static final int SEE_OTHER = 303;

    private Replies() {}

    static void page(HttpServletResponse response, int status, Html page) throws IOException {
        response.setHeader("Content-Security-Policy", Layout.CONTENT_SECURITY_POLICY);
        response.setHeader("Referrer-Policy", "same-origin");
        send(response, status, "text/html;charset=UTF-8", page.toString().getBytes(StandardCharsets.UTF_8));
    }

    static void json(HttpServletResponse response, int status, Map<String, ?> value) throws IOException {
        send(response, status, PlantApi.TYPE, PlantApi.json(value));
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
}
