package leadline.dealership.check;

import java.util.Map;

/**
 * A closed load of the scenario as it took place, from its start until nobody began anything any more.
 *
 * @param injectionRate sets the agents
 * @param dealerCycle mean seconds from one transaction of a dealer to the next
 * @param plantCycle the same of an agent of the plant
 * @param seconds that each agent was there, on average
 * @param waiting agents that waited for an answer, on average
 * @param asked how often each transaction was begun
 */
public record Load(
        double injectionRate,
        double dealerCycle,
        double plantCycle,
        double seconds,
        double waiting,
        Map<String, Long> asked) {}
