package leadline.brokerage.replay;

import java.sql.SQLException;

/** Plays commands of some users, one after the other. */
public interface Player extends AutoCloseable {
    /** True when done, false when refused for a reason a caller can be told; throws for anything else. */
    boolean play(Command command) throws Exception;

    @Override
    void close() throws SQLException;
}
