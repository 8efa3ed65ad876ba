package leadline.dealership.web;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import leadline.common.Html;
import leadline.dealership.domain.Login;

/** The frame of every page. The style sheet is inside, so that a page is one request. */
final class Layout {
    private static final String STYLE = style();
    static final String CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'sha256-" + hash(STYLE)
            + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    private static final String[][] LINKS = {
        {"/home", "Home"},
        {"/catalogue", "Catalogue"},
        {"/cart", "Cart"},
        {"/inventory", "Inventory"},
        {"/orders", "Orders"}
    };

    private Layout() {}

    /**
     * A whole page.
     *
     * @param root context path
     * @param visitor null when nobody is logged in
     */
    static Html page(String root, String title, Login visitor, Html body) {
        Html out = new Html()
                .add("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")
                .add("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")
                .add("<title>{} - dealership</title><style>", title)
                .add(STYLE)
                .add("</style></head>\n<body><header><nav><span class=\"brand\">dealership</span>");
        if (visitor == null) {
            out.add("<a href=\"{}/\">Log in</a>", root);
        } else {
            for (String[] link : LINKS) {
                out.add("<a href=\"{}{}\"", root, link[0]);
                out.add(link[1].equals(title) ? " aria-current=\"page\">" : ">").add("{}</a>", link[1]);
            }
            out.add(
                    "<form method=\"post\" action=\"{}/logout\"><button>Log out {}</button></form>",
                    root,
                    visitor.name());
        }
        return out.add("</nav></header>\n<main><h1>{}</h1>\n{}</main></body></html>\n", title, body);
    }

    private static String style() {
        try (InputStream in = Layout.class.getResourceAsStream("style.css")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String hash(String text) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return Base64.getEncoder().encodeToString(digest);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
