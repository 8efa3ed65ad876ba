package leadline.common;

import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;

/** A connection from the pool for each piece of work, committed or rolled back here unless a container does. */
public final class Transactions {
    /** Work on a connection. */
    public interface Work<T> {
        T on(Connection connection) throws SQLException;
    }

    private final DataSource source;
    private final boolean managed;

    public Transactions(DataSource source) {
        this(source, false);
    }

    private Transactions(DataSource source, boolean managed) {
        this.source = source;
        this.managed = managed;
    }

    /** Those of a container, which begins, commits and rolls back around the work. */
    public static Transactions managed(DataSource source) {
        return new Transactions(source, true);
    }

    /** Throws what the work throws, an SQLException as {@link DataFailure}. */
    public <T> T run(Work<T> work) {
        try (Connection connection = source.getConnection()) {
            if (managed) {
                return work.on(connection);
            }
            connection.setAutoCommit(false);
            try {
                T result = work.on(connection);
                connection.commit();
                return result;
            } catch (SQLException | RuntimeException e) {
                rollback(connection, e);
                throw e;
            } finally {
                restore(connection);
            }
        } catch (SQLException e) {
            throw new DataFailure(e);
        }
    }

    private static void rollback(Connection connection, Exception cause) {
        try {
            connection.rollback();
        } catch (SQLException e) {
            cause.addSuppressed(e);
        }
    }

    private static void restore(Connection connection) throws SQLException {
        if (!connection.isClosed()) {
            connection.setAutoCommit(true);
        }
    }
}
