package leadline.brokerage.orm;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.IdClass;
import jakarta.persistence.Table;
import java.io.Serializable;
import java.util.Objects;

/** Table {@code ledger_entry}. */
@Entity
@Table(name = "ledger_entry")
@IdClass(LedgerEntity.Key.class)
public class LedgerEntity {
    /** One entry of an order in each book. */
    public static class Key implements Serializable {
        private static final long serialVersionUID = 1L;
        private Long orderId;
        private String book;

        @Override
        public boolean equals(Object other) {
            return other instanceof Key key && Objects.equals(orderId, key.orderId) && Objects.equals(book, key.book);
        }

        @Override
        public int hashCode() {
            return Objects.hash(orderId, book);
        }
    }

    @Id
    @Column(name = "order_id")
    private Long orderId;

    @Id
    private String book;

    @Column(name = "account_id")
    private long accountId;

    private long amount;

    protected LedgerEntity() {}

    LedgerEntity(long orderId, String book, long accountId, long amount) {
        this.orderId = orderId;
        this.book = book;
        this.accountId = accountId;
        this.amount = amount;
    }
}
