package leadline.dealership.sql;

import javax.sql.DataSource;
import leadline.common.Transactions;

/** Mode {@code direct}: a connection from the pool for each operation, committed or rolled back here. */
public final class DirectDealership extends SqlDealership {
    private final Transactions transactions;

    public DirectDealership(DataSource source) {
        this.transactions = new Transactions(source);
    }

    @Override
    protected Transactions transactions() {
        return transactions;
    }
}
