package leadline.brokerage.web;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import leadline.brokerage.domain.AccountView;
import leadline.brokerage.domain.Holding;
import leadline.brokerage.domain.HomeView;
import leadline.brokerage.domain.Login;
import leadline.brokerage.domain.MarketSummary;
import leadline.brokerage.domain.Order;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Quote;
import leadline.common.Money;

/** The same answers as the pages, as objects for JSON. Amounts are decimals. */
final class JsonViews {
    private JsonViews() {}

    /** Names and values in turn; keeps their order. */
    private static Map<String, Object> object(Object... pairs) {
        Map<String, Object> out = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            out.put((String) pairs[i], pairs[i + 1]);
        }
        return out;
    }

    static Map<String, Object> error(Replies.Failure failure) {
        return object("error", failure.message());
    }

    static Map<String, Object> login(Login login) {
        return object("user", login.user(), "account", login.account());
    }

    static Map<String, Object> home(HomeView home, MarketSummary market) {
        return object(
                "user",
                home.user(),
                "balance",
                Money.decimal(home.balance()),
                "opening_balance",
                Money.decimal(home.openingBalance()),
                "holdings",
                home.holdings(),
                "holdings_value",
                Money.decimal(home.holdingsValue()),
                "logins",
                home.logins(),
                "market",
                object(
                        "gainers",
                        quoteList(market.gainers()),
                        "losers",
                        quoteList(market.losers()),
                        "active",
                        quoteList(market.active())));
    }

    static Map<String, Object> portfolio(List<Holding> holdings) {
        return object(
                "holdings",
                holdings.stream()
                        .map(holding -> object(
                                "id",
                                holding.id(),
                                "symbol",
                                holding.symbol(),
                                "quantity",
                                holding.quantity(),
                                "purchase_price",
                                Money.decimal(holding.purchasePrice()),
                                "price",
                                Money.decimal(holding.price()),
                                "quote",
                                holding.trades()))
                        .toList());
    }

    static Map<String, Object> quotes(List<Quote> quotes) {
        return object("quotes", quoteList(quotes));
    }

    private static List<Map<String, Object>> quoteList(List<Quote> quotes) {
        return quotes.stream()
                .map(quote -> object(
                        "symbol",
                        quote.symbol(),
                        "company",
                        quote.company(),
                        "price",
                        Money.decimal(quote.price()),
                        "open_price",
                        Money.decimal(quote.openPrice()),
                        "low",
                        Money.decimal(quote.low()),
                        "high",
                        Money.decimal(quote.high()),
                        "change_percent",
                        Money.decimal(quote.changeBp()),
                        "volume",
                        quote.volume(),
                        "quote",
                        quote.trades()))
                .toList();
    }

    static Map<String, Object> order(Order order) {
        if (order.status().equals(QueueingBrokerage.ACCEPTED)) {
            return object(
                    "order",
                    null,
                    "side",
                    order.side().name().toLowerCase(Locale.ROOT),
                    "status",
                    order.status().toLowerCase(Locale.ROOT),
                    "opened_at",
                    order.openedAt() + "Z",
                    "command",
                    order.command());
        }
        return object(
                "order",
                order.id(),
                "side",
                order.side().name().toLowerCase(Locale.ROOT),
                "symbol",
                order.symbol(),
                "quantity",
                order.quantity(),
                "price",
                Money.decimal(order.price()),
                "fee",
                Money.decimal(order.fee()),
                "status",
                order.status().toLowerCase(Locale.ROOT),
                "opened_at",
                order.openedAt() + "Z",
                "command",
                order.command());
    }

    static Map<String, Object> account(AccountView account) {
        return object(
                "account",
                account.id(),
                "user",
                account.user(),
                "balance",
                Money.decimal(account.balance()),
                "opening_balance",
                Money.decimal(account.openingBalance()),
                "logins",
                account.logins(),
                "last_login_at",
                account.lastLoginAt() == null ? null : account.lastLoginAt() + "Z",
                "orders",
                account.orders().stream().map(JsonViews::order).toList());
    }

    static Map<String, Object> profile(Profile profile) {
        return object(
                "full_name",
                profile.fullName(),
                "address",
                profile.address(),
                "email",
                profile.email(),
                "card",
                profile.card());
    }
}
