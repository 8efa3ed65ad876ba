package leadline.brokerage.web;

import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import java.io.IOException;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * A memory leak to order: every request leaves some bytes behind that nothing ever frees. It is there to show that the
 * leak test finds one, and is off unless the system property is set.
 */
final class Retention implements Filter {
    static final String PROPERTY = "brokerage.leak";
    private static final int MOST = 1 << 20;

    private final Queue<byte[]> kept = new ConcurrentLinkedQueue<>();
    private final int bytes;

    Retention(int bytes) {
        this.bytes = bytes;
    }

    /** Bytes a request; 0 where the property is not set. */
    static int configuredBytes() {
        String word = System.getProperty(PROPERTY, "0");
        try {
            int bytes = Integer.parseInt(word.strip());
            if (bytes >= 0 && bytes <= MOST) {
                return bytes;
            }
        } catch (NumberFormatException e) {
            // Said below.
        }
        throw new IllegalStateException("the system property " + PROPERTY + " is \"" + word + "\"; it must be 0 to "
                + MOST + " whole bytes a request");
    }

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        retain();
        chain.doFilter(request, response);
    }

    void retain() {
        kept.add(new byte[bytes]);
    }

    int held() {
        return kept.size();
    }
}
