package leadline.brokerage.domain;

import leadline.common.Money;

/**
 * The effect of one order, worked out before anything is written; the same for every mode.
 *
 * @param price cents a share
 * @param fee commission, cents
 * @param cash change of the account's balance, cents
 */
public record Trade(Side side, int quantity, long price, long fee, long cash) {
    /** Commission on every order, cents. */
    public static final long FEE = 495;

    /** What was bought or sold, cents, without the commission. */
    public long value() {
        return quantity * price;
    }

    /** The market's side of the ledger: with the cash and the commission it adds up to zero. */
    public long market() {
        return -cash - fee;
    }

    /**
     * A purchase.
     *
     * @throws BrokerageException CONFLICT when the balance does not cover it
     */
    public static Trade buy(int quantity, long price, long balance) {
        long cost = quantity * price + FEE;
        if (cost > balance) {
            throw BrokerageException.conflict("insufficient funds: the order costs " + Money.text(cost)
                    + ", the balance is " + Money.text(balance));
        }
        return new Trade(Side.BUY, quantity, price, FEE, -cost);
    }

    public static Trade sell(int quantity, long price) {
        return new Trade(Side.SELL, quantity, price, FEE, quantity * price - FEE);
    }

    /**
     * The price an accepted command fills at.
     *
     * @param quote number of trades the quoted price stood for; null for the price now
     * @throws BrokerageException BAD_REQUEST for a price this instrument has not had yet
     */
    public static long quoteNumber(String symbol, Long quote, long tradesNow) {
        if (quote == null) {
            return tradesNow;
        }
        if (quote < 0 || quote > tradesNow) {
            throw BrokerageException.bad(
                    "quote " + quote + " of " + symbol + " does not exist, the latest is " + tradesNow);
        }
        return quote;
    }
}
