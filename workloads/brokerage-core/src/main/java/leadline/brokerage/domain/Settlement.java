package leadline.brokerage.domain;

/**
 * How a queued order ended.
 *
 * @param quote of its instrument after the trade; null unless the order was filled now
 */
public record Settlement(Outcome outcome, Quote quote) {}
