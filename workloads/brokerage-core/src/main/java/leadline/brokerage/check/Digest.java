package leadline.brokerage.check;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * One number for a final state. Rows are named by user, symbol and command, never by a generated id, a time or a
 * password hash; the hash of a table is the sum of the SHA-256 of its rows modulo 2^256 (a multiset hash: Clarke and
 * others, ASIACRYPT 2003), so neither order nor interleaving shows.
 */
public final class Digest {
    private static final BigInteger MODULUS = BigInteger.ONE.shiftLeft(256);
    private static final int FETCH = 10_000;
    private static final char SEPARATOR = '\u001f';

    /** Of one table. */
    public record Part(long rows, String sha256) {}

    /** Of all tables. */
    public record Result(String sha256, Map<String, Part> tables) {}

    private static final Map<String, String> QUERIES = queries();

    private Digest() {}

    private static Map<String, String> queries() {
        Map<String, String> out = new LinkedHashMap<>();
        out.put("account", "SELECT user_name, opening_balance, balance, login_count FROM account");
        out.put(
                "account_profile",
                "SELECT a.user_name, p.full_name, p.address, p.email, p.card, p.update_count"
                        + " FROM account_profile p JOIN account a ON a.id = p.account_id");
        out.put(
                "instrument",
                "SELECT symbol, company, open_price, price, low, high, change_bp, volume, trade_count FROM instrument");
        out.put(
                "trade_order",
                "SELECT a.user_name, o.command_id, o.side, o.symbol, o.quantity, o.price, o.fee, o.status,"
                        + " b.command_id FROM trade_order o JOIN account a ON a.id = o.account_id"
                        + " LEFT JOIN trade_order b ON b.id = o.closes_order_id");
        out.put(
                "holding",
                "SELECT a.user_name, o.command_id, h.symbol, h.quantity, h.purchase_price FROM holding h"
                        + " JOIN account a ON a.id = h.account_id JOIN trade_order o ON o.id = h.order_id");
        out.put(
                "ledger_entry",
                "SELECT a.user_name, o.command_id, e.book, e.amount FROM ledger_entry e"
                        + " JOIN account a ON a.id = e.account_id JOIN trade_order o ON o.id = e.order_id");
        out.put("price_point", "SELECT symbol, trade_number, price FROM price_point");
        return out;
    }

    public static Result of(Connection connection) throws SQLException {
        Map<String, Part> tables = new LinkedHashMap<>();
        MessageDigest all = sha256();
        for (Map.Entry<String, String> query : QUERIES.entrySet()) {
            Part part = table(connection, query.getValue());
            tables.put(query.getKey(), part);
            all.update((query.getKey() + SEPARATOR + part.rows() + SEPARATOR + part.sha256() + '\n')
                    .getBytes(StandardCharsets.UTF_8));
        }
        return new Result(hex(new BigInteger(1, all.digest())), tables);
    }

    private static Part table(Connection connection, String sql) throws SQLException {
        MessageDigest sha = sha256();
        BigInteger sum = BigInteger.ZERO;
        long count = 0;
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(FETCH);
            try (ResultSet rows = statement.executeQuery(sql)) {
                int columns = rows.getMetaData().getColumnCount();
                while (rows.next()) {
                    StringBuilder line = new StringBuilder();
                    for (int i = 1; i <= columns; i++) {
                        String value = rows.getString(i);
                        line.append(value == null ? "" : value).append(SEPARATOR);
                    }
                    sum = sum.add(new BigInteger(1, sha.digest(line.toString().getBytes(StandardCharsets.UTF_8))));
                    count++;
                }
            }
        }
        return new Part(count, hex(sum.mod(MODULUS)));
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
