package leadline.dealership.tools;

import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;
import leadline.common.SingleConnection;

/** A pool of one for one thread, which opens its connection again when the database was gone. */
final class Lasting implements AutoCloseable {
    private static final long PATIENCE_NANOS = 60_000_000_000L;
    private static final int PAUSE_MILLIS = 100;

    private final DatabaseOptions database;
    private Connection connection;

    Lasting(DatabaseOptions database) {
        this.database = database;
    }

    DataSource source() {
        return (DataSource) Proxy.newProxyInstance(
                Lasting.class.getClassLoader(), new Class<?>[] {DataSource.class}, (p, method, args) -> {
                    if (!method.getName().equals("getConnection")) {
                        throw new UnsupportedOperationException(method.getName());
                    }
                    return SingleConnection.source(open()).getConnection();
                });
    }

    /** Throws what the last attempt threw. */
    private Connection open() throws SQLException, InterruptedException {
        long end = System.nanoTime() + PATIENCE_NANOS;
        while (connection == null || connection.isClosed()) {
            try {
                connection = database.open();
            } catch (SQLException e) {
                if (System.nanoTime() > end) {
                    throw e;
                }
                Thread.sleep(PAUSE_MILLIS);
            }
        }
        return connection;
    }

    @Override
    public void close() throws SQLException {
        if (connection != null) {
            connection.close();
        }
    }
}
