package quotes;

import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpSession;
import java.io.IOException;
import java.sql.Connection;
import java.sql.SQLException;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import javax.sql.DataSource;

/** {@code POST /login} begins a session in memory; {@code GET /desk} tells of it, with a connection of the pool. */
@WebServlet({"/login", "/desk"})
public final class Desk extends HttpServlet {
    private static final long serialVersionUID = 1L;

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        request.getSession(true).setAttribute("user", request.getParameter("user"));
        response.getWriter().write("Welcome");
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        HttpSession session = request.getSession(false);
        if (session == null || session.getAttribute("user") == null) {
            response.getWriter().write("User Not Logged In");
            return;
        }
        try (Connection connection = ((DataSource) new InitialContext().lookup("jdbc/quotes")).getConnection()) {
            response.getWriter().write("Desk of " + session.getAttribute("user") + connection.isValid(1));
        } catch (SQLException | NamingException error) {
            response.sendError(500);
        }
    }
}
