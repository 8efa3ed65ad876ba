import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import javax.sql.DataSource;

/**
 * {@code /health} answers as an application does; {@code /hold?ms=N} holds a pooled connection for N milliseconds;
 * {@code /look} tells the database's process behind its connection and how many statements that has prepared after one
 * was asked for eight times; {@code /text} is a long text.
 */
public final class ProbeServlet extends HttpServlet {
    private static final long serialVersionUID = 1L;

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        if (request.getServletPath().equals("/text")) {
            response.setContentType("text/plain");
            response.getOutputStream().write("All work and no play. ".repeat(1000).getBytes(StandardCharsets.UTF_8));
            return;
        }
        if (request.getServletPath().equals("/look")) {
            look(response);
            return;
        }
        long hold = request.getServletPath().equals("/hold") ? Long.parseLong(request.getParameter("ms")) : 0;
        try (Connection connection = dataSource().getConnection();
                PreparedStatement sleep = connection.prepareStatement("select pg_sleep(? / 1000.0)")) {
            sleep.setLong(1, hold);
            try (ResultSet slept = sleep.executeQuery()) {
                slept.next();
            }
            answer(response, 200, "{\"status\":\"up\",\"mode\":\"" + System.getProperty("brokerage.mode") + "\"}");
        } catch (SQLException | NamingException error) {
            answer(response, 500, error.toString());
        }
    }

    private static void look(HttpServletResponse response) throws IOException {
        try (Connection connection = dataSource().getConnection()) {
            for (int i = 0; i < 8; i++) {
                number(connection, "select 8");
            }
            long prepared = number(connection, "select count(*) from pg_prepared_statements where statement = 'select 8'");
            long backend = number(connection, "select pg_backend_pid()");
            answer(response, 200, "{\"backend\":" + backend + ",\"prepared\":" + prepared + "}");
        } catch (SQLException | NamingException error) {
            answer(response, 500, "{}");
        }
    }

    private static long number(Connection connection, String query) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(query);
                ResultSet found = statement.executeQuery()) {
            found.next();
            return found.getLong(1);
        }
    }

    private static DataSource dataSource() throws NamingException {
        return (DataSource) new InitialContext().lookup("java:comp/env/jdbc/brokerage");
    }

    private static void answer(HttpServletResponse response, int status, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        response.setStatus(status);
        response.setContentType("application/json");
        response.setContentLength(body.length);
        response.getOutputStream().write(body);
    }
}
