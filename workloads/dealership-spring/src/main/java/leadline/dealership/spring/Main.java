package leadline.dealership.spring;

import jakarta.servlet.Servlet;
import jakarta.servlet.ServletContextEvent;
import jakarta.servlet.ServletContextListener;
import javax.sql.DataSource;
import leadline.dealership.web.ApiServlet;
import leadline.dealership.web.Application;
import leadline.dealership.web.HealthServlet;
import leadline.dealership.web.PageServlet;
import leadline.dealership.web.Program;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.servlet.ServletListenerRegistrationBean;
import org.springframework.boot.web.servlet.ServletRegistrationBean;
import org.springframework.context.annotation.Bean;

/** The servlets of the archive in Spring Boot's embedded Tomcat, on Spring Boot's pool. */
@SpringBootApplication(proxyBeanMethods = false)
public class Main {
    public static void main(String[] arguments) {
        SpringApplication.run(Main.class, arguments);
    }

    @Bean
    ServletListenerRegistrationBean<ServletContextListener> startup(DataSource source) {
        return new ServletListenerRegistrationBean<>(new ServletContextListener() {
            @Override
            public void contextInitialized(ServletContextEvent event) {
                Application.start(event.getServletContext(), () -> new Program(source), Program.version());
            }

            @Override
            public void contextDestroyed(ServletContextEvent event) {
                Application.stop(event.getServletContext());
            }
        });
    }

    @Bean
    ServletRegistrationBean<Servlet> pages() {
        return servlet("pages", new PageServlet(), "/");
    }

    @Bean
    ServletRegistrationBean<Servlet> api() {
        return servlet("api", new ApiServlet(), "/api/*");
    }

    @Bean
    ServletRegistrationBean<Servlet> health() {
        return servlet("health", new HealthServlet(), "/health");
    }

    private static ServletRegistrationBean<Servlet> servlet(String name, Servlet servlet, String path) {
        ServletRegistrationBean<Servlet> made = new ServletRegistrationBean<>(servlet, path);
        made.setName(name);
        made.setLoadOnStartup(1);
        return made;
    }
}
