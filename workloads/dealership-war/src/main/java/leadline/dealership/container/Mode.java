package leadline.dealership.container;

import java.util.Locale;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import javax.sql.DataSource;
import leadline.common.ModeUnavailable;
import leadline.dealership.domain.Dealership;
import leadline.dealership.remote.Caller;
import leadline.dealership.remote.RemoteDealership;
import leadline.dealership.sql.DirectDealership;

/**
 * How the operations are done, chosen by the system property {@value #PROPERTY}. Beans are found by name only, so that
 * a server without enterprise beans never loads their classes.
 */
enum Mode {
    /** Servlet to JDBC, commits in code. */
    DIRECT("java:comp/env/jdbc/dealership"),
    /** Stateless session bean to JDBC, transactions by the container. */
    SESSION("SessionDealership");

    static final String PROPERTY = "dealership.mode";

    /** Name of the data source or of the bean. */
    private final String name;

    Mode(String name) {
        this.name = name;
    }

    static Mode configured() {
        String word = System.getProperty(PROPERTY, "direct");
        for (Mode mode : values()) {
            if (mode.word().equals(word)) {
                return mode;
            }
        }
        throw new IllegalStateException(
                "the system property " + PROPERTY + " is \"" + word + "\"; it must be direct or session");
    }

    String word() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** Finds the implementation; a {@link ModeUnavailable} says what the server lacks. */
    Dealership find(Calls calls) {
        String jndiName = this == DIRECT ? name : calls.nameOf(name);
        try {
            Object found = InitialContext.doLookup(jndiName);
            if (this == DIRECT) {
                return new DirectDealership((DataSource) found);
            }
            return calls == Calls.REMOTE ? Caller.of((RemoteDealership) found) : (Dealership) found;
        } catch (NamingException e) {
            String lack = this == DIRECT
                    ? "mode direct needs a data source named jdbc/dealership on this server"
                    : "mode " + word() + " needs a server with enterprise beans"
                            + (calls == Calls.REMOTE ? " and remote interfaces" : "")
                            + "; this one has none, use mode direct";
            throw new ModeUnavailable(lack + " (" + jndiName + ": " + e + ")", e);
        }
    }
}
