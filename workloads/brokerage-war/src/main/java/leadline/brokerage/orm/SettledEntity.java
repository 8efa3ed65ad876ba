package leadline.brokerage.orm;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.Id;
import jakarta.persistence.IdClass;
import jakarta.persistence.Table;
import java.io.Serial;
import java.io.Serializable;
import java.util.Objects;
import leadline.brokerage.domain.Outcome;
import leadline.brokerage.domain.QueuedOrder;
import leadline.brokerage.domain.Side;

/** Table {@code queued_order}. */
@Entity
@IdClass(SettledEntity.Key.class)
@Table(name = "queued_order")
public class SettledEntity {
    /** Account and command. */
    public static class Key implements Serializable {
        @Serial
        private static final long serialVersionUID = 1L;

        private long accountId;
        private String commandId;

        public Key() {}

        @Override
        public boolean equals(Object other) {
            return other instanceof Key key && key.accountId == accountId && key.commandId.equals(commandId);
        }

        @Override
        public int hashCode() {
            return Objects.hash(accountId, commandId);
        }
    }

    @Id
    @Column(name = "account_id")
    private long accountId;

    @Id
    @Column(name = "command_id")
    private String commandId;

    @Enumerated(EnumType.STRING)
    private Side side;

    @Enumerated(EnumType.STRING)
    private Outcome outcome;

    protected SettledEntity() {}

    SettledEntity(QueuedOrder order, Outcome outcome) {
        this.accountId = order.account();
        this.commandId = order.command();
        this.side = order.side();
        this.outcome = outcome;
    }

    static Key key(QueuedOrder order) {
        Key key = new Key();
        key.accountId = order.account();
        key.commandId = order.command();
        return key;
    }
}
