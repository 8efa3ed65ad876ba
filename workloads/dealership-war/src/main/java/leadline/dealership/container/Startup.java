package leadline.dealership.container;

import jakarta.servlet.ServletContext;
import jakarta.servlet.ServletContextEvent;
import jakarta.servlet.ServletContextListener;
import java.io.IOException;
import java.io.InputStream;
import java.util.jar.Attributes;
import java.util.jar.Manifest;
import leadline.dealership.web.Application;

/** Reads the configuration once; a wrong one stops the deployment with its reason. */
public final class Startup implements ServletContextListener {
    @Override
    public void contextInitialized(ServletContextEvent event) {
        ServletContext context = event.getServletContext();
        Application.start(context, Container::new, version(context));
    }

    @Override
    public void contextDestroyed(ServletContextEvent event) {
        Application.stop(event.getServletContext());
    }

    private static String version(ServletContext context) {
        try (InputStream in = context.getResourceAsStream("/META-INF/MANIFEST.MF")) {
            String version = in == null
                    ? null
                    : new Manifest(in).getMainAttributes().getValue(Attributes.Name.IMPLEMENTATION_VERSION);
            return version == null ? "unknown" : version;
        } catch (IOException e) {
            return "unknown";
        }
    }
}
