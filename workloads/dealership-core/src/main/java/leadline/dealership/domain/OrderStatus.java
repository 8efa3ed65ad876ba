package leadline.dealership.domain;

/** What became of an order. An ORDER ends SHIPPED or CANCELLED; a SALE is SOLD from the start. */
public enum OrderStatus {
    OPEN,
    PRODUCING,
    SHIPPED,
    CANCELLED,
    SOLD;

    public boolean closed() {
        return this != OPEN && this != PRODUCING;
    }
}
