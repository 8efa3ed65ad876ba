package quotes;

import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import javax.sql.DataSource;

/**
 * {@code GET /quote?id=N} tells a price and how many trades there are, {@code POST /quote?id=N} trades, {@code GET
 * /settings} tells the system property {@code quotes.work}: milliseconds that a trade takes while it has its connection.
 * Without a pool ({@code quotes.source} is empty) trades are counted in memory.
 */
@WebServlet({"/quote", "/settings"})
public final class Quotes extends HttpServlet {
    private static final long serialVersionUID = 1L;
    private static final String SOURCE = System.getProperty("quotes.source", "jdbc/quotes");
    private static final int WORK = Integer.getInteger("quotes.work", 0);
    private static int trades;
    private static boolean ready;

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        if (request.getServletPath().equals("/settings")) {
            say(response, 200, "{\"work\":" + WORK + "}");
            return;
        }
        int id = Integer.parseInt(request.getParameter("id"));
        try {
            say(response, 200, "{\"id\":" + id + ",\"price\":" + (100 + id % 7) + ",\"trades\":" + count() + "}");
        } catch (SQLException | NamingException error) {
            say(response, 500, "{}");
            log("quote", error);
        }
    }

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        int id = Integer.parseInt(request.getParameter("id"));
        try {
            trade(id);
            say(response, 201, "{\"id\":" + id + "}");
        } catch (SQLException | NamingException error) {
            say(response, 500, "{}");
            log("trade", error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            say(response, 503, "{}");
        }
    }

    private static void trade(int id) throws SQLException, NamingException, InterruptedException {
        if (SOURCE.isEmpty()) {
            synchronized (Quotes.class) {
                trades++;
            }
            return;
        }
        try (Connection connection = connection();
                PreparedStatement insert = connection.prepareStatement("insert into trade (quote) values (?)")) {
            Thread.sleep(WORK);
            insert.setInt(1, id);
            insert.executeUpdate();
        }
    }

    private static long count() throws SQLException, NamingException {
        if (SOURCE.isEmpty()) {
            synchronized (Quotes.class) {
                return trades;
            }
        }
        try (Connection connection = connection();
                PreparedStatement count = connection.prepareStatement("select count(*) from trade");
                ResultSet row = count.executeQuery()) {
            row.next();
            return row.getLong(1);
        }
    }

    private static Connection connection() throws SQLException, NamingException {
        Connection connection = ((DataSource) new InitialContext().lookup(SOURCE)).getConnection();
        synchronized (Quotes.class) {
            if (!ready) {
                try (PreparedStatement make =
                        connection.prepareStatement("create table if not exists trade (quote integer)")) {
                    make.execute();
                    ready = true;
                } catch (SQLException error) {
                    connection.close();
                    throw error;
                }
            }
        }
        return connection;
    }

    private static void say(HttpServletResponse response, int status, String json) throws IOException {
        response.setStatus(status);
        response.setContentType("application/json");
        response.getWriter().write(json);
    }
}
