package leadline.agent;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** Sum of counters of which each starts at nought and may go away: it never falls. Not safe for several threads. */
final class Growth {
    private final Map<Object, Double> last = new HashMap<>();
    private double total;

    /** Takes in what a counter says now; one that is below its last value has started anew. */
    void add(Object counter, double now) {
        if (Double.isNaN(now)) {
            return;
        }
        Double before = last.put(counter, now);
        total += before == null || now < before ? now : now - before;
    }

    /** Forgets the counters that are not {@code alive}, not what they counted. */
    void keep(Set<?> alive) {
        last.keySet().retainAll(alive);
    }

    double total() {
        return total;
    }
}
