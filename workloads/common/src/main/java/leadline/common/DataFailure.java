package leadline.common;

import java.sql.SQLException;

/** The database failed or refused; the transaction is rolled back. */
public final class DataFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public DataFailure(SQLException cause) {
        super(cause.getMessage(), cause);
    }

    public DataFailure(String message) {
        super(message);
    }
}
