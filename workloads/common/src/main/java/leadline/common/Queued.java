package leadline.common;

import javax.naming.InitialContext;
import javax.naming.NamingException;

/**
 * Whether work is done by the request or by way of a queue, chosen by a system property: {@code direct} or {@code
 * queue}.
 *
 * @param <Q> interface of the bean that puts work on the queue
 */
public final class Queued<Q> {
    private final String property;
    private final String bean;
    private final boolean chosen;

    /**
     * Reads the property.
     *
     * @param implementation class of the bean, which is called like it
     * @param archive the only archive that has the class
     */
    public Queued(String property, Class<Q> queue, String implementation, String archive) {
        this.property = property;
        this.bean =
                "java:module/" + implementation.substring(implementation.lastIndexOf('.') + 1) + "!" + queue.getName();
        String word = System.getProperty(property, "direct");
        if (!word.equals("direct") && !word.equals("queue")) {
            throw new IllegalStateException(
                    "the system property " + property + " is \"" + word + "\"; it must be direct or queue");
        }
        this.chosen = word.equals("queue");
        if (chosen) {
            requireClass(implementation, queue.getClassLoader(), archive);
        }
    }

    private void requireClass(String implementation, ClassLoader loader, String archive) {
        try {
            Class.forName(implementation, false, loader);
        } catch (ClassNotFoundException | LinkageError e) {
            throw new IllegalStateException(
                    "the system property " + property + " is \"queue\", which needs the archive " + archive
                            + " on a server with messaging and enterprise beans",
                    e);
        }
    }

    public boolean chosen() {
        return chosen;
    }

    public String word() {
        return chosen ? "queue" : "direct";
    }

    /** Finds the bean; a {@link ModeUnavailable} says what the server lacks. */
    public Q queue() {
        try {
            return InitialContext.doLookup(bean);
        } catch (NamingException e) {
            throw new ModeUnavailable(
                    property + " by a queue needs a server with messaging (" + bean + ": " + e + ")", e);
        }
    }
}
