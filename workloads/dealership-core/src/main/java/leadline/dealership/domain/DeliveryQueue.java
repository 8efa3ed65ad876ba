package leadline.dealership.domain;

import java.util.List;

/** Where the supplier's deliveries wait until they are taken in. */
public interface DeliveryQueue {
    /** Returns when the server has taken the message at the reliability it is set to. */
    void put(long purchaseOrder, List<PartLine> lines);
}
