package leadline.brokerage.web;

import java.util.Locale;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import javax.sql.DataSource;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.sql.DirectBrokerage;

/**
 * How the operations are done, chosen by the system property {@value #PROPERTY}. Beans are found by name only, so that
 * a server without enterprise beans never loads their classes.
 */
enum Mode {
    /** Servlet to JDBC, commits in code. */
    DIRECT("java:comp/env/jdbc/brokerage"),
    /** Stateless session bean to JDBC, transactions by the container. */
    SESSION("java:module/SessionBrokerage"),
    /** Stateless session bean to entities, transactions by the container. */
    ORM("java:module/OrmBrokerage");

    static final String PROPERTY = "brokerage.mode";

    private final String jndiName;

    Mode(String jndiName) {
        this.jndiName = jndiName;
    }

    static Mode configured() {
        String word = System.getProperty(PROPERTY, "direct");
        for (Mode mode : values()) {
            if (mode.word().equals(word)) {
                return mode;
            }
        }
        throw new IllegalStateException(
                "the system property " + PROPERTY + " is \"" + word + "\"; it must be direct, session or orm");
    }

    String word() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** Finds the implementation; a {@link ModeUnavailable} says what the server lacks. */
    Brokerage find() {
        try {
            Object found = InitialContext.doLookup(jndiName);
            return this == DIRECT ? new DirectBrokerage((DataSource) found) : (Brokerage) found;
        } catch (NamingException e) {
            String lack = this == DIRECT
                    ? "mode direct needs a data source named jdbc/brokerage on this server"
                    : "mode " + word() + " needs a server with enterprise beans"
                            + (this == ORM ? " and persistence" : "")
                            + "; this one has none, use mode direct";
            throw new ModeUnavailable(lack + " (" + jndiName + ": " + e + ")", e);
        }
    }
}
