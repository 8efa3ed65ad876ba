package leadline.dealership.sql;

/** Every statement of the operations. */
final class Sql {
    private static final String MODELS = "SELECT m.id, m.name, m.description, m.price, f.quantity"
            + " FROM model m JOIN finished_stock f ON f.model_id = m.id";
    private static final String ORDER_COLUMNS = "o.id, o.dealer_id, o.kind, o.large, o.status, o.total, o.command_id,"
            + " o.created_at, o.closed_at, l.line, l.model_id, l.quantity, l.price";
    private static final String ORDERS =
            "SELECT " + ORDER_COLUMNS + " FROM sales_order o JOIN order_line l ON l.order_id = o.id WHERE ";
    private static final String WORK = "SELECT id, kind, sales_order_id, line, model_id, quantity, stage, status,"
            + " completed_quantity, command_id, created_at, closed_at FROM work_order WHERE ";
    private static final String PURCHASE_COLUMNS =
            "o.id, o.supplier_id, o.work_order_id, o.status, o.sent_at," + " o.delivered_at, l.part_id, l.quantity";
    private static final String PURCHASES = "SELECT " + PURCHASE_COLUMNS
            + " FROM purchase_order o JOIN purchase_line l ON l.purchase_order_id = o.id WHERE ";

    static final String COUNT_DEALERS = "SELECT COUNT(*) FROM dealer";
    static final String LOGIN = "SELECT id, password_hash FROM dealer WHERE name = ?";
    static final String COUNT_LOGIN = "UPDATE dealer SET login_count = login_count + 1, last_login_at = ? WHERE id = ?";
    static final String LOCK_DEALER = "SELECT balance, credit_limit FROM dealer WHERE id = ? FOR UPDATE";
    static final String PAY = "UPDATE dealer SET balance = balance + ? WHERE id = ?";
    static final String HOME = "SELECT d.name, d.opening_balance, d.balance, d.credit_limit, d.login_count,"
            + " (SELECT COUNT(*) FROM sales_order o WHERE o.dealer_id = d.id AND o.status IN ('OPEN', 'PRODUCING')),"
            + " (SELECT COUNT(*) FROM dealer_stock s WHERE s.dealer_id = d.id AND s.quantity > 0),"
            + " (SELECT COALESCE(SUM(s.quantity), 0) FROM dealer_stock s WHERE s.dealer_id = d.id)"
            + " FROM dealer d WHERE d.id = ?";

    static final String MODELS_AFTER = MODELS + " WHERE m.id > ? ORDER BY m.id LIMIT ?";
    static final String MODELS_BEFORE = MODELS + " WHERE m.id < ? ORDER BY m.id DESC LIMIT ?";
    static final String MODEL = MODELS + " WHERE m.id = ?";
    static final String PRICE = "SELECT price FROM model WHERE id = ?";
    static final String SUPPLIER = "SELECT supplier_id FROM model WHERE id = ?";
    static final String BILL = "SELECT part_id, quantity FROM bill_of_materials WHERE model_id = ? ORDER BY part_id";

    static final String LOCK_FINISHED = "SELECT quantity FROM finished_stock WHERE model_id = ? FOR UPDATE";
    static final String ADD_FINISHED = "UPDATE finished_stock SET quantity = quantity + ? WHERE model_id = ?";
    static final String ADD_RESERVED = "UPDATE finished_stock SET reserved = reserved + ? WHERE model_id = ?";
    static final String INVENTORY = "SELECT s.model_id, m.name, s.quantity, m.price FROM dealer_stock s"
            + " JOIN model m ON m.id = s.model_id WHERE s.dealer_id = ? AND s.quantity > 0 ORDER BY s.model_id";
    static final String ADD_STOCK =
            "UPDATE dealer_stock SET quantity = quantity + ? WHERE dealer_id = ? AND model_id = ?";
    static final String INSERT_STOCK =
            "INSERT INTO dealer_stock (quantity, dealer_id, model_id, opening) VALUES (?, ?, ?, 0)";
    static final String TAKE_STOCK =
            "UPDATE dealer_stock SET quantity = quantity - ? WHERE dealer_id = ? AND model_id = ? AND quantity >= ?";

    static final String ORDER = ORDERS + "o.id = ? AND o.dealer_id = ? ORDER BY l.line";
    static final String ORDER_BY_COMMAND = ORDERS + "o.dealer_id = ? AND o.command_id = ? ORDER BY l.line";
    static final String OPEN_ORDERS = "SELECT " + ORDER_COLUMNS + " FROM (SELECT * FROM sales_order"
            + " WHERE dealer_id = ? AND status IN ('OPEN', 'PRODUCING') ORDER BY id DESC LIMIT ?) AS o"
            + " JOIN order_line l ON l.order_id = o.id ORDER BY o.id DESC, l.line";
    static final String INSERT_ORDER = "INSERT INTO sales_order (dealer_id, kind, large, status, total, open_work,"
            + " command_id, created_at, closed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    static final String INSERT_LINE =
            "INSERT INTO order_line (order_id, line, model_id, quantity, price) VALUES (?, ?, ?, ?, ?)";
    static final String LINES =
            "SELECT line, model_id, quantity, price FROM order_line WHERE order_id = ? ORDER BY model_id";
    static final String LOCK_ORDER =
            "SELECT dealer_id, status, total, open_work FROM sales_order WHERE id = ?" + " FOR UPDATE";
    static final String CLOSE_ORDER = "UPDATE sales_order SET status = ?, closed_at = ? WHERE id = ?";
    static final String SET_OPEN_WORK = "UPDATE sales_order SET open_work = ? WHERE id = ?";
    static final String START_ORDER = "UPDATE sales_order SET status = 'PRODUCING' WHERE id = ? AND status = 'OPEN'";
    static final String INSERT_LEDGER =
            "INSERT INTO ledger_entry (order_id, reason, book, dealer_id, amount) VALUES (?, ?, ?, ?, ?)";
    static final String INSERT_BACK_ORDER = "INSERT INTO back_order (order_id, model_id) VALUES (?, ?)";
    static final String DELETE_BACK_ORDERS = "DELETE FROM back_order WHERE order_id = ?";
    static final String WAITING_ORDERS = "SELECT b.order_id, o.dealer_id FROM back_order b"
            + " JOIN sales_order o ON o.id = b.order_id WHERE b.model_id = ? ORDER BY b.order_id LIMIT ?";

    static final String INSERT_WORK = "INSERT INTO work_order (kind, sales_order_id, line, model_id, quantity, stage,"
            + " status, completed_quantity, advances, command_id, created_at)"
            + " VALUES (?, ?, ?, ?, ?, 0, 'SCHEDULED', 0, 0, ?, ?)";
    static final String WORK_BY_ID = WORK + "id = ?";
    static final String WORK_BY_COMMAND = WORK + "command_id = ?";
    static final String LOCK_WORK = WORK_BY_ID + " FOR UPDATE";
    static final String LOCK_WORK_OF_ORDER =
            "SELECT id FROM work_order WHERE sales_order_id = ? ORDER BY id FOR UPDATE";
    static final String CANCEL_WORK_OF_ORDER =
            "UPDATE work_order SET status = 'CANCELLED', closed_at = ? WHERE sales_order_id = ?";
    static final String CLAIM =
            WORK + "kind = 'LARGE' AND status = 'SCHEDULED' ORDER BY id LIMIT 1" + " FOR UPDATE SKIP LOCKED";
    static final String ADVANCE_WORK =
            "UPDATE work_order SET stage = ?, status = ?, advances = advances + ? WHERE id = ?";
    static final String CLOSE_WORK =
            "UPDATE work_order SET status = ?, completed_quantity = ?, closed_at = ? WHERE id = ?";
    static final String WORK_PURPOSE = "SELECT w.sales_order_id, o.dealer_id, w.model_id FROM work_order w"
            + " LEFT JOIN sales_order o ON o.id = w.sales_order_id WHERE w.id = ?";
    static final String WORK_COUNTS = "SELECT status, COUNT(*) FROM work_order GROUP BY status";
    static final String UNCLAIMED = "SELECT COUNT(*) FROM work_order WHERE kind = 'LARGE' AND status = 'SCHEDULED'";

    static final String LOCK_PART = "SELECT on_hand, opening FROM part_stock WHERE part_id = ? FOR UPDATE";
    static final String ADD_PART = "UPDATE part_stock SET on_hand = on_hand + ? WHERE part_id = ?";
    static final String ADD_ON_ORDER = "UPDATE part_stock SET on_order = on_order + ? WHERE part_id = ?";
    static final String RECEIVE_PART =
            "UPDATE part_stock SET on_hand = on_hand + ?, on_order = on_order - ? WHERE part_id = ?";
    static final String INSERT_USE =
            "INSERT INTO part_use (work_order_id, part_id, quantity, returned) VALUES (?, ?, ?, 0)";
    static final String USES = "SELECT part_id, quantity FROM part_use WHERE work_order_id = ? ORDER BY part_id";
    static final String RETURN_USES = "UPDATE part_use SET returned = quantity WHERE work_order_id = ?";

    static final String SENT_FOR_WORK =
            "SELECT COUNT(*) FROM purchase_order WHERE work_order_id = ? AND status = 'SENT'";
    static final String INSERT_PURCHASE = "INSERT INTO purchase_order (supplier_id, work_order_id, cause, status,"
            + " sent_at) VALUES (?, ?, ?, 'SENT', ?)";
    static final String INSERT_PURCHASE_LINE =
            "INSERT INTO purchase_line (purchase_order_id, part_id, quantity," + " delivered) VALUES (?, ?, ?, 0)";
    static final String LOCK_PURCHASE = "SELECT status FROM purchase_order WHERE id = ? FOR UPDATE";
    static final String PURCHASE_LINES =
            "SELECT part_id, quantity FROM purchase_line WHERE purchase_order_id = ? ORDER BY part_id";
    static final String CLOSE_PURCHASE =
            "UPDATE purchase_order SET status = 'DELIVERED', delivered_at = ? WHERE id = ?";
    static final String RECEIVE_LINES = "UPDATE purchase_line SET delivered = quantity WHERE purchase_order_id = ?";
    static final String INSERT_DELIVERY =
            "INSERT INTO delivery (purchase_order_id, received_at, repeated) VALUES (?, ?, 0)";
    static final String REPEAT_DELIVERY = "UPDATE delivery SET repeated = repeated + 1 WHERE purchase_order_id = ?";
    static final String PURCHASES_OF_WORK = PURCHASES + "o.work_order_id = ? ORDER BY o.id, l.part_id";
    static final String UNDELIVERED = "SELECT " + PURCHASE_COLUMNS + " FROM (SELECT * FROM purchase_order"
            + " WHERE status = 'SENT' AND sent_at < ? ORDER BY sent_at, id LIMIT ?) AS o"
            + " JOIN purchase_line l ON l.purchase_order_id = o.id ORDER BY o.sent_at, o.id, l.part_id";
    static final String PURCHASE_COUNTS = "SELECT status, COUNT(*) FROM purchase_order GROUP BY status";
    static final String REPEATED = "SELECT COALESCE(SUM(repeated), 0) FROM delivery";

    private Sql() {}
}
