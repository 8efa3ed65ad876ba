package leadline.common;

/**
 * Outcome of one audit.
 *
 * @param detail what was looked at, and what is wrong if it did not pass
 */
public record Audit(String name, boolean passed, String detail) {}
