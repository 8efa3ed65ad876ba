package leadline.brokerage.web;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.InputStream;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The archive's files below {@code /static}, kept in memory from their first request on, with their type and length. No
 * entity tag: a web server in front that serves the same files itself sends one.
 */
public final class StaticServlet extends HttpServlet {
    private static final long serialVersionUID = 1L;
    private static final Map<String, String> TYPES = Map.of(
            "css", "text/css",
            "js", "application/javascript",
            "svg", "image/svg+xml",
            "txt", "text/plain");
    private static final byte[] ABSENT = {};

    private final transient Map<String, byte[]> files = new ConcurrentHashMap<>();

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String path = request.getPathInfo() == null ? "" : request.getPathInfo();
        String type = TYPES.get(path.substring(path.lastIndexOf('.') + 1));
        if (type == null || path.contains("..")) {
            response.sendError(HttpServletResponse.SC_NOT_FOUND);
            return;
        }
        byte[] found = read("/static" + path);
        if (found.length == 0) {
            response.sendError(HttpServletResponse.SC_NOT_FOUND);
            return;
        }
        response.setContentType(type);
        response.setContentLength(found.length);
        response.getOutputStream().write(found);
    }

    /** Only files that exist are kept, so requests cannot fill the memory. */
    private byte[] read(String path) throws IOException {
        byte[] kept = files.get(path);
        if (kept != null) {
            return kept;
        }
        try (InputStream stream = getServletContext().getResourceAsStream(path)) {
            if (stream == null) {
                return ABSENT;
            }
            byte[] content = stream.readAllBytes();
            files.put(path, content);
            return content;
        }
    }
}
