package leadline.brokerage.web;

import java.util.Locale;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import javax.sql.DataSource;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.remote.Caller;
import leadline.brokerage.remote.RemoteBrokerage;
import leadline.brokerage.sql.DirectBrokerage;
import leadline.common.ModeUnavailable;

/**
 * How the operations are done, chosen by the system property {@value #PROPERTY}. Beans are found by name only, so that
 * a server without enterprise beans never loads their classes.
 */
enum Mode {
    /** Servlet to JDBC, commits in code. */
    DIRECT("java:comp/env/jdbc/brokerage"),
    /** Stateless session bean to JDBC, transactions by the container. */
    SESSION("SessionBrokerage"),
    /** Stateless session bean to entities, transactions by the container. */
    ORM("OrmBrokerage");

    static final String PROPERTY = "brokerage.mode";

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
                "the system property " + PROPERTY + " is \"" + word + "\"; it must be direct, session or orm");
    }

    String word() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** Finds the implementation; a {@link ModeUnavailable} says what the server lacks. */
    Brokerage find(Calls calls) {
        String jndiName = this == DIRECT ? name : calls.nameOf(name);
        try {
            Object found = InitialContext.doLookup(jndiName);
            if (this == DIRECT) {
                return new DirectBrokerage((DataSource) found);
            }
            return calls == Calls.REMOTE ? new Caller((RemoteBrokerage) found) : (Brokerage) found;
        } catch (NamingException e) {
            String lack = this == DIRECT
                    ? "mode direct needs a data source named jdbc/brokerage on this server"
                    : "mode " + word() + " needs a server with enterprise beans"
                            + (calls == Calls.REMOTE ? ", remote interfaces" : "")
                            + (this == ORM ? " and persistence" : "")
                            + "; this one has none, use mode direct";
            throw new ModeUnavailable(lack + " (" + jndiName + ": " + e + ")", e);
        }
    }
}
