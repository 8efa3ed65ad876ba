package leadline.brokerage.orm;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.time.LocalDateTime;
import leadline.brokerage.domain.Order;
import leadline.brokerage.domain.Side;
import leadline.brokerage.domain.Trade;

/** Table {@code trade_order}. */
@Entity
@Table(name = "trade_order")
public class OrderEntity {
    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    private Long id;

    @Column(name = "account_id")
    private long accountId;

    private String symbol;

    @Enumerated(EnumType.STRING)
    private Side side;

    private int quantity;
    private long price;
    private long fee;

    @Column(name = "quote_number")
    private long quoteNumber;

    @Column(name = "trade_number")
    private long tradeNumber;

    private String status;

    @Column(name = "opened_at")
    private LocalDateTime openedAt;

    @Column(name = "completed_at")
    private LocalDateTime completedAt;

    @Column(name = "command_id")
    private String commandId;

    @Column(name = "closes_order_id")
    private Long closesOrderId;

    protected OrderEntity() {}

    OrderEntity(long accountId, String symbol, Trade trade, long quoteNumber, long tradeNumber, LocalDateTime now) {
        this.accountId = accountId;
        this.symbol = symbol;
        this.side = trade.side();
        this.quantity = trade.quantity();
        this.price = trade.price();
        this.fee = trade.fee();
        this.quoteNumber = quoteNumber;
        this.tradeNumber = tradeNumber;
        this.status = "COMPLETED";
        this.openedAt = now;
        this.completedAt = now;
    }

    void named(String command) {
        this.commandId = command;
    }

    void closes(Long order) {
        this.closesOrderId = order;
    }

    long id() {
        return id;
    }

    Side side() {
        return side;
    }

    Order order() {
        return new Order(id, side, symbol, quantity, price, fee, status, openedAt, commandId);
    }
}
