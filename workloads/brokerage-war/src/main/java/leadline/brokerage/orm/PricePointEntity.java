package leadline.brokerage.orm;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.IdClass;
import jakarta.persistence.Table;
import java.io.Serializable;
import java.util.Objects;

/** Table {@code price_point}. */
@Entity
@Table(name = "price_point")
@IdClass(PricePointEntity.Key.class)
public class PricePointEntity {
    /** One price after each trade of an instrument. */
    public static class Key implements Serializable {
        private static final long serialVersionUID = 1L;
        private String symbol;
        private Long tradeNumber;

        @Override
        public boolean equals(Object other) {
            return other instanceof Key key
                    && Objects.equals(symbol, key.symbol)
                    && Objects.equals(tradeNumber, key.tradeNumber);
        }

        @Override
        public int hashCode() {
            return Objects.hash(symbol, tradeNumber);
        }
    }

    @Id
    private String symbol;

    @Id
    @Column(name = "trade_number")
    private Long tradeNumber;

    private long price;

    protected PricePointEntity() {}

    PricePointEntity(String symbol, long tradeNumber, long price) {
        this.symbol = symbol;
        this.tradeNumber = tradeNumber;
        this.price = price;
    }
}
