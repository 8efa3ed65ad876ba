package leadline.brokerage.orm;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import leadline.brokerage.domain.Holding;

/** Table {@code holding}. */
@Entity
@Table(name = "holding")
public class HoldingEntity {
    @Id
    @Column(name = "order_id")
    private Long orderId;

    @Column(name = "account_id")
    private long accountId;

    private String symbol;
    private int quantity;

    @Column(name = "purchase_price")
    private long purchasePrice;

    protected HoldingEntity() {}

    HoldingEntity(long orderId, long accountId, String symbol, int quantity, long purchasePrice) {
        this.orderId = orderId;
        this.accountId = accountId;
        this.symbol = symbol;
        this.quantity = quantity;
        this.purchasePrice = purchasePrice;
    }

    long accountId() {
        return accountId;
    }

    String symbol() {
        return symbol;
    }

    int quantity() {
        return quantity;
    }

    Holding holding(InstrumentEntity instrument) {
        return new Holding(orderId, symbol, quantity, purchasePrice, instrument.price(), instrument.trades());
    }
}
