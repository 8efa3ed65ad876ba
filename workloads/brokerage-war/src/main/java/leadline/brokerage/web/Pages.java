package leadline.brokerage.web;

import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Locale;
import leadline.brokerage.domain.AccountView;
import leadline.brokerage.domain.Holding;
import leadline.brokerage.domain.HomeView;
import leadline.brokerage.domain.MarketSummary;
import leadline.brokerage.domain.Order;
import leadline.brokerage.domain.Profile;
import leadline.brokerage.domain.Quote;
import leadline.brokerage.domain.Side;
import leadline.common.Html;
import leadline.common.Money;

/** The inside of each page for somebody logged in. {@code root} is the context path. */
final class Pages {
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss");

    private Pages() {}

    static Html home(String root, HomeView home, MarketSummary market) {
        Html out = new Html().add("<section><h2>Welcome, {}</h2><dl class=\"facts\">", home.user());
        fact(out, "Balance", Money.text(home.balance()));
        fact(out, "Holdings", home.holdings());
        fact(out, "Value of holdings", Money.text(home.holdingsValue()));
        fact(out, "Total", Money.text(home.total()));
        fact(out, "Opening balance", Money.text(home.openingBalance()));
        fact(out, "Logins", home.logins());
        out.add("</dl></section>\n<div class=\"grid\">");
        market(out, root, "Gainers", market.gainers());
        market(out, root, "Losers", market.losers());
        market(out, root, "Most traded", market.active());
        return out.add("</div>\n");
    }

    private static void fact(Html out, String name, Object value) {
        out.add("<div><dt>{}</dt><dd>{}</dd></div>", name, value);
    }

    private static void market(Html out, String root, String title, List<Quote> quotes) {
        out.add(
                "<section><h2>{}</h2><table><tr><th>Symbol<th class=\"n\">Price<th class=\"n\">Change<th class=\"n\">Volume</tr>",
                title);
        for (Quote quote : quotes) {
            out.add(
                    "\n<tr data-symbol=\"{}\"><td><a href=\"{}/quotes?symbols={}\">{}</a>",
                    quote.symbol(),
                    root,
                    quote.symbol(),
                    quote.symbol());
            out.add(
                    "<td class=\"n\">{}<td class=\"n {}\">{}<td class=\"n\">{}</tr>",
                    Money.text(quote.price()),
                    direction(quote.changeBp()),
                    percent(quote.changeBp()),
                    quote.volume());
        }
        out.add("</table></section>");
    }

    static Html quotes(String root, List<Quote> quotes, boolean more) {
        Html out = new Html()
                .add(
                        "<section><form method=\"get\" action=\"{}/quotes\"><label><span>Symbols, with commas between</span>",
                        root)
                .add(
                        "<input name=\"symbols\" placeholder=\"S00001,S00002\" required></label><button>Show</button></form></section>\n")
                .add(
                        "<section><table><tr><th>Symbol<th>Company<th class=\"n\">Price<th class=\"n\">Change<th class=\"n\">Low")
                .add("<th class=\"n\">High<th class=\"n\">Volume<th>Buy</tr>");
        for (Quote quote : quotes) {
            out.add("\n<tr data-symbol=\"{}\"><td>{}<td>{}", quote.symbol(), quote.symbol(), quote.company());
            out.add(
                    "<td class=\"n\">{}<td class=\"n {}\">{}",
                    Money.text(quote.price()),
                    direction(quote.changeBp()),
                    percent(quote.changeBp()));
            out.add(
                    "<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}",
                    Money.text(quote.low()),
                    Money.text(quote.high()),
                    quote.volume());
            out.add(
                    "<td><form method=\"post\" action=\"{}/buy\"><input type=\"hidden\" name=\"symbol\" value=\"{}\">",
                    root,
                    quote.symbol());
            out.add(
                    "<input type=\"hidden\" name=\"quote\" value=\"{}\"><input type=\"number\" name=\"quantity\" value=\"10\" min=\"1\"",
                    quote.trades());
            out.add(" max=\"10000\" aria-label=\"Shares of {}\"><button>Buy</button></form></tr>", quote.symbol());
        }
        out.add("</table>");
        if (more) {
            out.add(
                    "<p><a href=\"{}/quotes?after={}\">More</a></p>",
                    root,
                    quotes.get(quotes.size() - 1).symbol());
        }
        return out.add("</section>\n");
    }

    static Html portfolio(String root, List<Holding> holdings) {
        if (holdings.isEmpty()) {
            return new Html().add("<section><p>No holdings. <a href=\"{}/quotes\">Buy some.</a></p></section>\n", root);
        }
        Html out = new Html()
                .add(
                        "<section><table><tr><th>Holding<th>Symbol<th class=\"n\">Shares<th class=\"n\">Bought at<th class=\"n\">Price")
                .add("<th class=\"n\">Value<th class=\"n\">Gain<th></tr>");
        long value = 0;
        long gain = 0;
        for (Holding holding : holdings) {
            value += holding.value();
            gain += holding.gain();
            out.add("\n<tr data-holding=\"{}\"><td>{}<td>{}", holding.id(), holding.id(), holding.symbol());
            out.add(
                    "<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}",
                    holding.quantity(),
                    Money.text(holding.purchasePrice()),
                    Money.text(holding.price()));
            out.add(
                    "<td class=\"n\">{}<td class=\"n {}\">{}",
                    Money.text(holding.value()),
                    direction(holding.gain()),
                    Money.text(holding.gain()));
            out.add(
                    "<td><form method=\"post\" action=\"{}/sell\"><input type=\"hidden\" name=\"holding\" value=\"{}\">",
                    root,
                    holding.id());
            out.add(
                    "<input type=\"hidden\" name=\"quote\" value=\"{}\"><button>Sell</button></form></tr>",
                    holding.trades());
        }
        return out.add(
                "\n<tr><th>Total<th><th><th><th><th class=\"n\">{}<th class=\"n {}\">{}<th></tr></table></section>\n",
                Money.text(value),
                direction(gain),
                Money.text(gain));
    }

    static Html order(String root, Order order) {
        if (order.status().equals(QueueingBrokerage.ACCEPTED)) {
            return new Html()
                    .add(
                            "<section class=\"note\" data-order=\"{}\"><h2>Order {} is accepted</h2>",
                            order.command(),
                            order.command())
                    .add("<p><a href=\"{}/account\">It will be among the latest orders.</a></p></section>\n", root);
        }
        Html out = new Html()
                .add("<section class=\"note\" data-order=\"{}\"><h2>Order {} is filled</h2>", order.id(), order.id());
        out.add(
                "<p>{} {} shares of {} at {}, commission {}.</p>",
                order.side() == Side.BUY ? "Bought" : "Sold",
                order.quantity(),
                order.symbol(),
                Money.text(order.price()),
                Money.text(order.fee()));
        return out.add("<p><a href=\"{}/portfolio\">Portfolio</a></p></section>\n", root);
    }

    static Html account(AccountView account) {
        Html out = new Html().add("<section><dl class=\"facts\">");
        fact(out, "User", account.user());
        fact(out, "Account", account.id());
        fact(out, "Balance", Money.text(account.balance()));
        fact(out, "Opening balance", Money.text(account.openingBalance()));
        fact(out, "Logins", account.logins());
        fact(out, "Last login", time(account.lastLoginAt()));
        out.add(
                        "</dl></section>\n<section><h2>Latest orders</h2><table><tr><th>Order<th>Time (UTC)<th>Side<th>Symbol<th class=\"n\">Shares")
                .add("<th class=\"n\">Price<th class=\"n\">Commission<th>Status</tr>");
        for (Order order : account.orders()) {
            out.add(
                    "\n<tr><td>{}<td>{}<td>{}<td>{}",
                    order.id(),
                    time(order.openedAt()),
                    order.side().name().toLowerCase(Locale.ROOT),
                    order.symbol());
            out.add(
                    "<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td>{}</tr>",
                    order.quantity(),
                    Money.text(order.price()),
                    Money.text(order.fee()),
                    order.status().toLowerCase(Locale.ROOT));
        }
        return out.add("</table></section>\n");
    }

    static Html profile(String root, Profile profile, boolean saved) {
        Html out = new Html();
        if (saved) {
            out.add("<section class=\"note\"><p>Saved.</p></section>\n");
        }
        out.add("<section><form method=\"post\" action=\"{}/profile\">", root);
        profileFields(out, profile);
        return out.add("<button>Save</button></form></section>\n");
    }

    static void profileFields(Html out, Profile profile) {
        field(out, "Full name", "full_name", "text", profile.fullName(), "name");
        field(out, "Address", "address", "text", profile.address(), "street-address");
        field(out, "E-mail", "email", "email", profile.email(), "email");
        field(out, "Card", "card", "text", profile.card(), "off");
    }

    static void field(Html out, String label, String name, String type, String value, String autocomplete) {
        out.add(
                "<label><span>{}</span><input name=\"{}\" type=\"{}\" value=\"{}\" autocomplete=\"{}\" required></label>",
                label,
                name,
                type,
                value == null ? "" : value,
                autocomplete);
    }

    private static String direction(long change) {
        return change < 0 ? "down" : "up";
    }

    private static String percent(int basisPoints) {
        return (basisPoints > 0 ? "+" : "") + Money.text(basisPoints) + " %";
    }

    private static String time(LocalDateTime time) {
        return time == null ? "never" : TIME.format(time);
    }
}
