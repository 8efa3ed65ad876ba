package leadline.dealership.quarkus;

import io.agroal.api.AgroalDataSource;
import jakarta.inject.Inject;
import jakarta.servlet.ServletContextEvent;
import jakarta.servlet.ServletContextListener;
import jakarta.servlet.annotation.WebListener;
import leadline.dealership.web.Application;
import leadline.dealership.web.Program;

/** The servlets of the archive on Quarkus's own pool. */
@WebListener
public class Startup implements ServletContextListener {
    @Inject
    AgroalDataSource source;

    @Override
    public void contextInitialized(ServletContextEvent event) {
        Application.start(event.getServletContext(), () -> new Program(source), Program.version());
    }

    @Override
    public void contextDestroyed(ServletContextEvent event) {
        Application.stop(event.getServletContext());
    }
}
