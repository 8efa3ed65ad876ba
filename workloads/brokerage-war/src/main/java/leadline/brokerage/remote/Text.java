package leadline.brokerage.remote;

import java.io.Serial;
import java.io.Serializable;
import java.time.LocalDateTime;
import leadline.brokerage.domain.Side;

/** A time or a side of a trade as text: their own serial forms are proxies, which not every ORB follows. */
final class Text implements Serializable {
    @Serial
    private static final long serialVersionUID = 1L;

    private final boolean time;
    private final String text;

    private Text(boolean time, String text) {
        this.time = time;
        this.text = text;
    }

    static Text of(Object value) {
        return new Text(value instanceof LocalDateTime, value.toString());
    }

    Object value() {
        return time ? LocalDateTime.parse(text) : Side.valueOf(text);
    }
}
