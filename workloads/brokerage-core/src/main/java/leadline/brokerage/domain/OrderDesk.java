package leadline.brokerage.domain;

/** Settles queued orders; each call is one transaction, together with the message that brought the order. */
public interface OrderDesk {
    /** Fills or rejects the order and writes that down, unless it was settled before. */
    Settlement settle(QueuedOrder order);

    /** Writes down that the order was given up, unless it was settled before. */
    Settlement giveUp(QueuedOrder order);
}
