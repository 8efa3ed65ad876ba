package leadline.dealership.web;

import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Locale;
import leadline.common.Html;
import leadline.common.Money;
import leadline.dealership.domain.CartLine;
import leadline.dealership.domain.DealerHome;
import leadline.dealership.domain.Login;
import leadline.dealership.domain.Model;
import leadline.dealership.domain.OrderLine;
import leadline.dealership.domain.OrderStatus;
import leadline.dealership.domain.SalesOrder;
import leadline.dealership.domain.StockLine;

/** The inside of each page. {@code root} is the context path. */
final class Pages {
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss");

    /** A line of the cart with what it costs now. */
    record Priced(CartLine line, Model model) {
        long total() {
            return model.price() * line.quantity();
        }
    }

    private Pages() {}

    static Html login(String root, Login visitor, String problem) {
        Html out = new Html();
        error(out, problem);
        if (visitor != null) {
            out.add(
                    "<section class=\"note\"><p>Logged in as {}. <a href=\"{}/home\">Go on.</a></p></section>\n",
                    visitor.name(),
                    root);
        }
        out.add("<section><form method=\"post\" action=\"{}/login\">", root);
        field(out, "Dealer", "name", "text", "username");
        field(out, "Password", "password", "password", "current-password");
        return out.add("<button>Log in</button></form></section>\n");
    }

    static Html problem(String message) {
        Html out = new Html();
        error(out, message);
        return out;
    }

    static Html home(DealerHome home) {
        Html out = new Html().add("<section><h2>Welcome, {}</h2><dl class=\"facts\">", home.name());
        fact(out, "Balance", Money.text(home.balance()));
        fact(out, "Credit", Money.text(home.credit()));
        fact(out, "Open orders", home.openOrders());
        fact(out, "Models in stock", home.models());
        fact(out, "Vehicles in stock", home.vehicles());
        fact(out, "Opening balance", Money.text(home.openingBalance()));
        fact(out, "Credit limit", Money.text(home.creditLimit()));
        fact(out, "Logins", home.logins());
        return out.add("</dl></section>\n");
    }

    /** {@code more}: whether there may be models after these. */
    static Html catalogue(String root, List<Model> models, boolean more) {
        Html out = new Html()
                .add(
                        "<section><table><tr><th>Model<th>Name<th class=\"n\">Price<th class=\"n\">Available<th>Order</tr>");
        for (Model model : models) {
            out.add("\n<tr data-model=\"{}\"><td>", model.id());
            link(out, root, model.id());
            out.add(
                    "<td>{}<td class=\"n\">{}<td class=\"n\">{}<td>",
                    model.name(),
                    Money.text(model.price()),
                    model.available());
            add(out, root, model.id());
            out.add("</tr>");
        }
        out.add("</table><p>");
        if (!models.isEmpty()) {
            out.add(
                    "<a href=\"{}/catalogue?before={}\" rel=\"prev\">Back</a> ",
                    root,
                    models.get(0).id());
        }
        if (more) {
            out.add(
                    "<a href=\"{}/catalogue?after={}\" rel=\"next\">Forward</a>",
                    root,
                    models.get(models.size() - 1).id());
        }
        return out.add("</p></section>\n");
    }

    static Html model(String root, Model model) {
        Html out = new Html().add("<section data-model=\"{}\"><h2>{}</h2><p>", model.id(), model.name());
        out.add("{}</p><dl class=\"facts\">", model.description());
        fact(out, "Model", model.id());
        fact(out, "Price", Money.text(model.price()));
        fact(out, "Available", model.available());
        out.add("</dl>");
        add(out, root, model.id());
        return out.add("</section>\n");
    }

    static Html cart(String root, List<Priced> lines) {
        if (lines.isEmpty()) {
            return new Html()
                    .add(
                            "<section data-cart=\"0\"><p>The cart is empty. <a href=\"{}/catalogue\">Go to the catalogue.</a></p></section>\n",
                            root);
        }
        Html out = new Html().add("<section data-cart=\"{}\"><table><tr><th>Model<th>Name", lines.size());
        out.add("<th class=\"n\">Quantity<th class=\"n\">Price<th class=\"n\">Total<th></tr>");
        long total = 0;
        for (Priced each : lines) {
            total += each.total();
            String id = each.model().id();
            out.add("\n<tr data-line=\"{}\"><td>", id);
            link(out, root, id);
            out.add(
                    "<td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td>",
                    each.model().name(),
                    each.line().quantity(),
                    Money.text(each.model().price()),
                    Money.text(each.total()));
            button(out, root, "/cart/remove", "model", id, "Remove");
            out.add("</tr>");
        }
        out.add("</table><p>Total {}</p>", Money.text(total));
        out.add("<form method=\"post\" action=\"{}/checkout\"><button>Check out</button></form>", root);
        return out.add(
                "<form method=\"post\" action=\"{}/cart/clear\"><button>Clear</button></form></section>\n", root);
    }

    static Html inventory(String root, List<StockLine> lines) {
        Html out = new Html()
                .add("<section><table><tr><th>Model<th>Name<th class=\"n\">Vehicles<th class=\"n\">Price<th>Sell</tr>");
        for (StockLine line : lines) {
            out.add("\n<tr data-stock=\"{}\"><td>", line.model());
            link(out, root, line.model());
            out.add(
                    "<td>{}<td class=\"n\">{}<td class=\"n\">{}<td>",
                    line.name(),
                    line.quantity(),
                    Money.text(line.price()));
            out.add("<form method=\"post\" action=\"{}/sell\">", root);
            out.add("<input type=\"hidden\" name=\"model\" value=\"{}\">", line.model());
            out.add("<input name=\"quantity\" type=\"number\" min=\"1\" max=\"{}\" value=\"1\" ", line.quantity());
            out.add("aria-label=\"Vehicles to sell\"><button>Sell</button></form></tr>");
        }
        return out.add("</table></section>\n");
    }

    static Html orders(String root, List<SalesOrder> orders) {
        Html out = new Html()
                .add("<section><h2>Open orders</h2><table><tr><th class=\"n\">Order<th>Placed (UTC)<th>Status")
                .add("<th class=\"n\">Vehicles<th class=\"n\">Total<th></tr>");
        for (SalesOrder order : orders) {
            boolean open = order.status() == OrderStatus.OPEN;
            out.add("\n<tr {}=\"{}\"><td class=\"n\">", new Html().add(open ? "data-open" : "data-waits"), order.id());
            out.add("<a href=\"{}/order?id={}\">{}</a>", root, order.id(), order.id());
            out.add(
                    "<td>{}<td>{}<td class=\"n\">{}<td class=\"n\">{}<td>",
                    time(order.createdAt()),
                    word(order.status()),
                    vehicles(order),
                    Money.text(order.total()));
            if (open) {
                button(out, root, "/cancel", "id", Long.toString(order.id()), "Cancel");
            }
            out.add("</tr>");
        }
        return out.add("</table></section>\n");
    }

    static Html order(String root, SalesOrder order) {
        Html out = new Html()
                .add(
                        "<section data-order=\"{}\" data-status=\"{}\" data-large=\"{}\"><dl class=\"facts\">",
                        order.id(),
                        word(order.status()),
                        order.large());
        fact(out, "Order", order.id());
        fact(out, "Kind", word(order.kind()));
        fact(out, "Status", word(order.status()));
        fact(out, "Placed (UTC)", time(order.createdAt()));
        fact(out, "Closed (UTC)", time(order.closedAt()));
        fact(out, "Vehicles", vehicles(order));
        fact(out, "Total", Money.text(order.total()));
        out.add("</dl><table><tr><th class=\"n\">Line<th>Model<th class=\"n\">Quantity<th class=\"n\">Price</tr>");
        for (OrderLine line : order.lines()) {
            out.add("\n<tr><td class=\"n\">{}<td>", line.line());
            link(out, root, line.model());
            out.add("<td class=\"n\">{}<td class=\"n\">{}</tr>", line.quantity(), Money.text(line.price()));
        }
        return out.add("</table></section>\n");
    }

    private static void link(Html out, String root, String model) {
        out.add("<a href=\"{}/model?id={}\">{}</a>", root, model, model);
    }

    private static void add(Html out, String root, String model) {
        out.add("<form method=\"post\" action=\"{}/cart/add\">", root);
        out.add("<input type=\"hidden\" name=\"model\" value=\"{}\">", model);
        out.add("<input name=\"quantity\" type=\"number\" min=\"1\" value=\"1\" aria-label=\"Vehicles to order\">");
        out.add("<button>Add</button></form>");
    }

    private static void button(Html out, String root, String path, String name, String value, String label) {
        out.add("<form method=\"post\" action=\"{}{}\">", root, path);
        out.add("<input type=\"hidden\" name=\"{}\" value=\"{}\"><button>{}</button></form>", name, value, label);
    }

    private static void field(Html out, String label, String name, String type, String autocomplete) {
        out.add("<label><span>{}</span><input name=\"{}\" type=\"{}\" ", label, name, type);
        out.add("autocomplete=\"{}\" required></label>", autocomplete);
    }

    private static void fact(Html out, String name, Object value) {
        out.add("<div><dt>{}</dt><dd>{}</dd></div>", name, value);
    }

    private static void error(Html out, String problem) {
        if (problem != null) {
            out.add("<section class=\"error\" role=\"alert\"><p>{}</p></section>\n", problem);
        }
    }

    private static long vehicles(SalesOrder order) {
        return order.lines().stream().mapToLong(OrderLine::quantity).sum();
    }

    private static String word(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT);
    }

    private static String time(LocalDateTime time) {
        return time == null ? "not yet" : TIME.format(time);
    }
}
