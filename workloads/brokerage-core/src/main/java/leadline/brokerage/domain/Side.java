package leadline.brokerage.domain;

/** Direction of an order. */
public enum Side {
    BUY,
    SELL
}
