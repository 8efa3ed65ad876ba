package leadline.brokerage.orm;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import leadline.brokerage.domain.PriceRule;
import leadline.brokerage.domain.Quote;

/** Table {@code instrument}. */
@Entity
@Table(name = "instrument")
public class InstrumentEntity {
    @Id
    private String symbol;

    private String company;

    @Column(name = "open_price")
    private long openPrice;

    private long price;
    private long low;
    private long high;

    @Column(name = "change_bp")
    private int changeBp;

    private long volume;

    @Column(name = "trade_count")
    private long tradeCount;

    protected InstrumentEntity() {}

    long price() {
        return price;
    }

    long trades() {
        return tradeCount;
    }

    /** Moves on by one trade. */
    void traded(int quantity) {
        tradeCount++;
        price = PriceRule.price(symbol, tradeCount);
        low = Math.min(low, price);
        high = Math.max(high, price);
        changeBp = PriceRule.changeBasisPoints(price, openPrice);
        volume += quantity;
    }

    Quote quote() {
        return new Quote(symbol, company, openPrice, price, low, high, changeBp, volume, tradeCount);
    }
}
