package leadline.dealership.session;

import jakarta.annotation.PostConstruct;
import jakarta.annotation.Resource;
import jakarta.ejb.Local;
import jakarta.ejb.Stateless;
import javax.sql.DataSource;
import leadline.common.Transactions;
import leadline.dealership.domain.Dealership;
import leadline.dealership.sql.SqlDealership;

/** The operations of mode {@code direct}; the container begins, commits and rolls back around each method. */
@Stateless(name = "SessionDealership")
@Local(Dealership.class)
public class SessionDealership extends SqlDealership {
    @Resource(name = "jdbc/dealership", shareable = false)
    private DataSource source;

    private Transactions transactions;

    public SessionDealership() {}

    /** For another bean, which brings the transaction. */
    public SessionDealership(DataSource source) {
        this.source = source;
        prepare();
    }

    @PostConstruct
    void prepare() {
        transactions = Transactions.managed(source);
    }

    @Override
    protected Transactions transactions() {
        return transactions;
    }
}
