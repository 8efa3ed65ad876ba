package leadline.dealership.tools;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.Properties;
import picocli.CommandLine.Option;

/** Where the database is. */
final class DatabaseOptions {
    @Option(
            names = "--url",
            required = true,
            description = "JDBC URL, as jdbc:postgresql://host:port/database or jdbc:mariadb://host:port/database")
    private String url;

    @Option(names = "--user", description = "database user")
    private String user;

    @Option(names = "--password", description = "its password; without it the environment's DEALERSHIP_DB_PASSWORD")
    private String password;

    /** A new connection; the caller closes it. */
    Connection open() throws SQLException {
        Properties properties = new Properties();
        if (user != null) {
            properties.setProperty("user", user);
        }
        String secret = password == null ? System.getenv("DEALERSHIP_DB_PASSWORD") : password;
        if (secret != null) {
            properties.setProperty("password", secret);
        }
        properties.setProperty("reWriteBatchedInserts", "true");
        properties.setProperty("rewriteBatchedStatements", "true");
        return DriverManager.getConnection(url, properties);
    }
}
