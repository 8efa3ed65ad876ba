package leadline.brokerage.check;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.LinkedHashMap;
import java.util.Map;
import leadline.common.RowSum;

/**
 * One number for a final state. Rows are named by user, symbol and command, never by a generated id, a time or a
 * password hash, and their order does not show ({@link RowSum}), so neither does any interleaving.
 */
public final class Digest {
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
        StringBuilder all = new StringBuilder();
        for (Map.Entry<String, String> query : QUERIES.entrySet()) {
            RowSum sum = RowSum.of(connection, query.getValue());
            tables.put(query.getKey(), new Part(sum.rows(), sum.sha256Sum()));
            all.append(query.getKey() + SEPARATOR + sum.rows() + SEPARATOR + sum.sha256Sum() + '\n');
        }
        return new Result(RowSum.sha256(all.toString()), tables);
    }
}
