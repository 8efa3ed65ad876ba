package leadline.common;

/** Text of a page. Everything put in for {@code {}} is escaped, except another {@code Html}. */
public final class Html {
    private final StringBuilder out = new StringBuilder(4_096);

    /**
     * Appends a template.
     *
     * @param template trusted markup, one {@code {}} for each value
     */
    public Html add(String template, Object... values) {
        int from = 0;
        for (Object value : values) {
            int at = template.indexOf("{}", from);
            if (at < 0) {
                throw new IllegalArgumentException("more values than places in: " + template);
            }
            out.append(template, from, at);
            if (value instanceof Html html) {
                out.append(html.out);
            } else {
                escape(String.valueOf(value));
            }
            from = at + 2;
        }
        if (template.indexOf("{}", from) >= 0) {
            throw new IllegalArgumentException("fewer values than places in: " + template);
        }
        out.append(template, from, template.length());
        return this;
    }

    private void escape(String text) {
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            switch (c) {
                case '&' -> out.append("&amp;");
                case '<' -> out.append("&lt;");
                case '>' -> out.append("&gt;");
                case '"' -> out.append("&quot;");
                case '\'' -> out.append("&#39;");
                default -> out.append(c);
            }
        }
    }

    @Override
    public String toString() {
        return out.toString();
    }
}
