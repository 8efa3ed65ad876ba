package leadline.dealership.web;

import java.util.Map;
import javax.sql.DataSource;
import leadline.common.ModeUnavailable;
import leadline.dealership.domain.Dealership;
import leadline.dealership.domain.DeliveryQueue;
import leadline.dealership.sql.DirectDealership;

/** A program with a server and a pool of its own: servlet to JDBC, commits in code, no session beans, no queue. */
public final class Program implements Packaging {
    private static final Map<String, String> ONLY =
            Map.of("dealership.mode", "direct", "dealership.calls", "local", "dealership.deliveries", "direct");

    private final Dealership dealership;

    /** IllegalStateException when a system property asks for what only an archive in a server can do. */
    public Program(DataSource source) {
        ONLY.forEach(Program::check);
        this.dealership = new DirectDealership(source);
    }

    private static void check(String property, String only) {
        String word = System.getProperty(property, only);
        if (!word.equals(only)) {
            throw new IllegalStateException("the system property " + property + " is \"" + word
                    + "\"; a program without enterprise beans has " + only + " only");
        }
    }

    /** Of the application, as its jar says. */
    public static String version() {
        String version = Program.class.getPackage().getImplementationVersion();
        return version == null ? "unknown" : version;
    }

    @Override
    public String mode() {
        return "direct";
    }

    @Override
    public String calls() {
        return "local";
    }

    @Override
    public String deliveries() {
        return "direct";
    }

    @Override
    public Dealership operations() {
        return dealership;
    }

    @Override
    public DeliveryQueue queue() {
        throw new ModeUnavailable("dealership.deliveries by a queue needs a server with messaging", null);
    }
}
