package leadline.brokerage.web;

import leadline.brokerage.domain.Login;
import leadline.brokerage.domain.Profile;
import leadline.common.Html;

/** The inside of the pages for anybody. */
final class PublicPages {
    private PublicPages() {}

    static Html login(String root, Login visitor, String problem) {
        Html out = new Html();
        error(out, problem);
        if (visitor != null) {
            out.add(
                    "<section class=\"note\"><p>Logged in as {}. <a href=\"{}/home\">Go on.</a></p></section>\n",
                    visitor.user(),
                    root);
        }
        out.add("<section><form method=\"post\" action=\"{}/login\">", root);
        Pages.field(out, "User", "user", "text", "", "username");
        Pages.field(out, "Password", "password", "password", "", "current-password");
        out.add("<button>Log in</button></form></section>\n");
        return out.add("<section><p>New here? <a href=\"{}/register\">Open an account.</a></p></section>\n", root);
    }

    static Html register(String root, String user, Profile profile, String openingBalance, String problem) {
        Html out = new Html();
        error(out, problem);
        out.add("<section><form method=\"post\" action=\"{}/register\">", root);
        Pages.field(out, "User", "user", "text", user, "username");
        Pages.field(out, "Password", "password", "password", "", "new-password");
        Pages.profileFields(out, profile);
        Pages.field(out, "Opening balance", "opening_balance", "text", openingBalance, "off");
        return out.add("<button>Open account</button></form></section>\n");
    }

    static Html problem(String message) {
        Html out = new Html();
        error(out, message);
        return out;
    }

    private static void error(Html out, String problem) {
        if (problem != null) {
            out.add("<section class=\"error\" role=\"alert\"><p>{}</p></section>\n", problem);
        }
    }
}
