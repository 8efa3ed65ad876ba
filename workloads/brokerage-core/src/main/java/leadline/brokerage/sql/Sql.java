package leadline.brokerage.sql;

/** Every statement of the operations. The entities of mode {@code orm} map the same tables to the same meaning. */
final class Sql {
    private static final String QUOTE_COLUMNS =
            "symbol, company, open_price, price, low, high, change_bp, volume, trade_count";
    private static final String ORDER_COLUMNS = "id, side, symbol, quantity, price, fee, status, opened_at, command_id";

    static final String COUNT_ACCOUNTS = "SELECT COUNT(*) FROM account";
    static final String LOGIN = "SELECT id, password_hash FROM account WHERE user_name = ?";
    static final String COUNT_LOGIN =
            "UPDATE account SET login_count = login_count + 1, last_login_at = ? WHERE id = ?";
    static final String ACCOUNT =
            "SELECT user_name, opening_balance, balance, login_count, last_login_at FROM account WHERE id = ?";
    static final String LOCK_ACCOUNT = "SELECT balance FROM account WHERE id = ? FOR UPDATE";
    static final String SET_BALANCE = "UPDATE account SET balance = ? WHERE id = ?";
    static final String INSERT_ACCOUNT = "INSERT INTO account (user_name, password_hash, opening_balance, balance,"
            + " login_count, created_at) VALUES (?, ?, ?, ?, 0, ?)";

    static final String PROFILE = "SELECT full_name, address, email, card FROM account_profile WHERE account_id = ?";
    static final String UPDATE_PROFILE = "UPDATE account_profile SET full_name = ?, address = ?, email = ?, card = ?,"
            + " update_count = update_count + 1 WHERE account_id = ?";
    static final String INSERT_PROFILE = "INSERT INTO account_profile (account_id, full_name, address, email, card,"
            + " update_count) VALUES (?, ?, ?, ?, ?, 0)";

    static final String GAINERS =
            "SELECT " + QUOTE_COLUMNS + " FROM instrument ORDER BY change_bp DESC, symbol DESC LIMIT ?";
    static final String LOSERS = "SELECT " + QUOTE_COLUMNS + " FROM instrument ORDER BY change_bp, symbol LIMIT ?";
    static final String ACTIVE =
            "SELECT " + QUOTE_COLUMNS + " FROM instrument ORDER BY volume DESC, symbol DESC LIMIT ?";
    static final String QUOTES_AFTER =
            "SELECT " + QUOTE_COLUMNS + " FROM instrument WHERE symbol > ? ORDER BY symbol LIMIT ?";
    private static final String QUOTES_IN = "SELECT " + QUOTE_COLUMNS + " FROM instrument WHERE symbol IN (";
    static final String LOCK_INSTRUMENT =
            "SELECT open_price, low, high, volume, trade_count FROM instrument WHERE symbol = ? FOR UPDATE";
    static final String UPDATE_INSTRUMENT = "UPDATE instrument SET price = ?, low = ?, high = ?, change_bp = ?,"
            + " volume = ?, trade_count = ? WHERE symbol = ?";
    static final String INSERT_PRICE_POINT = "INSERT INTO price_point (symbol, trade_number, price) VALUES (?, ?, ?)";

    static final String HOLDINGS_VALUE = "SELECT COUNT(*), COALESCE(SUM(h.quantity * i.price), 0)"
            + " FROM holding h JOIN instrument i ON i.symbol = h.symbol WHERE h.account_id = ?";
    static final String PORTFOLIO = "SELECT h.order_id, h.symbol, h.quantity, h.purchase_price, i.price, i.trade_count"
            + " FROM holding h JOIN instrument i ON i.symbol = h.symbol WHERE h.account_id = ? ORDER BY h.order_id";
    static final String HOLDING = "SELECT symbol, quantity FROM holding WHERE order_id = ? AND account_id = ?";
    static final String INSERT_HOLDING =
            "INSERT INTO holding (order_id, account_id, symbol, quantity, purchase_price) VALUES (?, ?, ?, ?, ?)";
    static final String DELETE_HOLDING = "DELETE FROM holding WHERE order_id = ?";

    static final String LATEST_ORDERS =
            "SELECT " + ORDER_COLUMNS + " FROM trade_order WHERE account_id = ? ORDER BY id DESC LIMIT ?";
    static final String ORDER_BY_COMMAND =
            "SELECT " + ORDER_COLUMNS + " FROM trade_order WHERE account_id = ? AND command_id = ?";
    static final String ORDER_CLOSING = "SELECT id FROM trade_order WHERE closes_order_id = ? AND account_id = ?";
    static final String INSERT_ORDER = "INSERT INTO trade_order (account_id, symbol, side, quantity, price, fee,"
            + " quote_number, trade_number, status, opened_at, completed_at, command_id, closes_order_id)"
            + " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'COMPLETED', ?, ?, ?, ?)";
    static final String INSERT_LEDGER =
            "INSERT INTO ledger_entry (order_id, book, account_id, amount) VALUES (?, ?, ?, ?)";

    static final String SETTLED = "SELECT outcome FROM queued_order WHERE account_id = ? AND command_id = ?";
    static final String INSERT_SETTLED =
            "INSERT INTO queued_order (account_id, command_id, side, outcome) VALUES (?, ?, ?, ?)";

    private Sql() {}

    static String quotesIn(int symbols) {
        return QUOTES_IN + "?" + ", ?".repeat(symbols - 1) + ") ORDER BY symbol";
    }
}
