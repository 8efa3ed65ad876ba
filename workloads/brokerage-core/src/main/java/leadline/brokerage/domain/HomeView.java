package leadline.brokerage.domain;

/** The figures of the first page; amounts in cents. */
public record HomeView(String user, long openingBalance, long balance, long logins, long holdings, long holdingsValue) {
    public long total() {
        return balance + holdingsValue;
    }
}
