package leadline.dealership.domain;

import java.util.concurrent.atomic.LongAdder;

/** Counts of this server since its start: deliveries put on the queue, and those that it gave up taking in. */
public final class DeliveryFigures {
    public static final DeliveryFigures ALL = new DeliveryFigures();

    private final LongAdder accepted = new LongAdder();
    private final LongAdder givenUp = new LongAdder();

    private DeliveryFigures() {}

    public void accept() {
        accepted.increment();
    }

    public void giveUp() {
        givenUp.increment();
    }

    public long accepted() {
        return accepted.sum();
    }

    public long givenUp() {
        return givenUp.sum();
    }
}
