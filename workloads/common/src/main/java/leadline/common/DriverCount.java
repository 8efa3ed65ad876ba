package leadline.common;

/**
 * What a driver counted of one transaction.
 *
 * @param ok right answers; each must have left its effect
 * @param failed other answers, or none; each may have left its effect
 * @param skipped found that there was nothing to do, and left nothing
 */
public record DriverCount(long ok, long failed, long skipped) {
    public DriverCount(long ok, long failed) {
        this(ok, failed, 0);
    }

    /** How often it was begun. */
    public long asked() {
        return ok + failed + skipped;
    }
}
