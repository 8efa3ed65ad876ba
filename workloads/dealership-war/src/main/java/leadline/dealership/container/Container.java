package leadline.dealership.container;

import leadline.common.Queued;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DeliveryQueue;
import leadline.dealership.web.Packaging;

/** The archive in a server, in the mode that system properties choose. */
final class Container implements Packaging {
    private final Mode mode = Mode.configured();
    private final Calls calls = Calls.configured(mode);
    private final Queued<DeliveryQueue> deliveries = new Queued<>(
            "dealership.deliveries",
            DeliveryQueue.class,
            "leadline.dealership.messaging.JmsDeliveryQueue",
            "dealership-queue.war");

    @Override
    public String mode() {
        return mode.word();
    }

    @Override
    public String calls() {
        return calls.word();
    }

    @Override
    public String deliveries() {
        return deliveries.word();
    }

    @Override
    public Dealership operations() {
        return mode.find(calls);
    }

    @Override
    public DeliveryQueue queue() {
        return deliveries.queue();
    }
}
