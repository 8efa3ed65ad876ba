package leadline.dealership.web;

import leadline.common.ModeUnavailable;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DeliveryQueue;

/** How the operations are done here: by an archive in a server, or by a program with a server inside. */
public interface Packaging {
    /** {@code direct} or {@code session}. */
    String mode();

    /** {@code local} or {@code remote}. */
    String calls();

    /** {@code direct} or {@code queue}. */
    String deliveries();

    /** Finds the operations; a {@link ModeUnavailable} says what the server lacks. */
    Dealership operations();

    /** Where deliveries wait when they go by way of a queue; a {@link ModeUnavailable} says what the server lacks. */
    DeliveryQueue queue();
}
