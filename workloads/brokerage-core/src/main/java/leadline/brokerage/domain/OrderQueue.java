package leadline.brokerage.domain;

/** Where accepted orders wait. */
public interface OrderQueue {
    /** Returns when the server has taken the message at the reliability it is set to. */
    void put(QueuedOrder order);

    /** Messages that wait for their first or next delivery. */
    int waiting();
}
