package leadline.common;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.JDBCType;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;

/**
 * Number of rows and the sum of their SHA-256 modulo 2^256 (a multiset hash: Clarke and others, ASIACRYPT 2003), so
 * that their order does not show.
 */
public final class RowSum {
    private static final BigInteger MODULUS = BigInteger.ONE.shiftLeft(256);
    private static final int FETCH = 10_000;
    private static final char SEPARATOR = '\u001f';

    private final MessageDigest sha = sha256();
    private BigInteger sum = BigInteger.ZERO;
    private long rows;

    /** Of the rows of a query, fetched a part at a time. */
    public static RowSum of(Connection connection, String sql) throws SQLException {
        RowSum out = new RowSum();
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(FETCH);
            try (ResultSet row = statement.executeQuery(sql)) {
                Object[] values = new Object[row.getMetaData().getColumnCount()];
                while (row.next()) {
                    for (int i = 0; i < values.length; i++) {
                        values[i] = row.getObject(i + 1);
                    }
                    out.add(values);
                }
            }
        }
        return out;
    }

    /** Nulls may be written as for {@link Rows#set}. */
    public void add(Object... values) {
        StringBuilder line = new StringBuilder();
        for (Object value : values) {
            if (value != null && !(value instanceof JDBCType)) {
                line.append(value instanceof Timestamp time ? time.toLocalDateTime() : value);
            }
            line.append(SEPARATOR);
        }
        sum = sum.add(new BigInteger(1, sha.digest(line.toString().getBytes(StandardCharsets.UTF_8))));
        rows++;
    }

    public long rows() {
        return rows;
    }

    /** The sum in 64 hexadecimal digits. */
    public String sha256Sum() {
        return hex(sum.mod(MODULUS));
    }

    public boolean same(RowSum other) {
        return rows == other.rows && sha256Sum().equals(other.sha256Sum());
    }

    /** The SHA-256 of a text in 64 hexadecimal digits. */
    public static String sha256(String text) {
        return hex(new BigInteger(1, sha256().digest(text.getBytes(StandardCharsets.UTF_8))));
    }

    private static String hex(BigInteger number) {
        String digits = number.toString(16);
        return "0".repeat(64 - digits.length()) + digits;
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("SHA-256 is not available in this Java runtime", e);
        }
    }
}
