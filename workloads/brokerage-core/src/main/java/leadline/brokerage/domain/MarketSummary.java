package leadline.brokerage.domain;

import java.util.List;

/** The market at a glance: the instruments that rose most, fell most and were traded most. */
public record MarketSummary(List<Quote> gainers, List<Quote> losers, List<Quote> active) {
    /** Instruments in each list. */
    public static final int SIZE = 5;
}
