package leadline.common;

import java.sql.SQLException;

/** Takes generated rows, those that a row refers to before it. */
public interface Sink {
    /** A row with its values in the order of the schema. */
    void add(String table, Object... values) throws SQLException;
}
