package leadline.dealership.check;

import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;

/**
 * Something that went wrong, to see which audits notice.
 *
 * @param statements change the data
 * @param inputs changes what the driver or the supplier counted
 * @param audits exactly those that fail
 */
record Fault(String name, List<String> statements, UnaryOperator<Inputs> inputs, Set<String> audits) {
    static Fault data(String name, String statement, String... audits) {
        return new Fault(name, List.of(statement), UnaryOperator.identity(), Set.of(audits));
    }

    static Fault data(String name, List<String> statements, String... audits) {
        return new Fault(name, statements, UnaryOperator.identity(), Set.of(audits));
    }

    static Fault counts(String name, UnaryOperator<Inputs> inputs, String... audits) {
        return new Fault(name, List.of(), inputs, Set.of(audits));
    }
}
