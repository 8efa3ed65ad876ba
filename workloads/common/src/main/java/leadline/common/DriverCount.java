package leadline.common;

/**
 * What a driver counted of one transaction.
 *
 * @param ok right answers; each must have left its effect
 * @param failed other answers, or none; each may have left its effect
 */
public record DriverCount(long ok, long failed) {}
