package leadline.brokerage.web;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** The least a server can answer: four bytes, no session, no database. What is left is the server's own work. */
public final class PingServlet extends HttpServlet {
    private static final long serialVersionUID = 1L;
    private static final byte[] PONG = "pong".getBytes(StandardCharsets.US_ASCII);

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setContentType("text/plain");
        response.setHeader("Cache-Control", "no-store");
        response.setContentLength(PONG.length);
        response.getOutputStream().write(PONG);
    }
}
