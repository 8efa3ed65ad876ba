package leadline.agent;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Properties;

/** The agent's options, read from a properties file whose path is the agent's only argument. */
final class Options {
    private final Properties values;

    private Options(Properties values) {
        this.values = values;
    }

    static Options read(Path file) throws IOException {
        Properties values = new Properties();
        try (Reader reader = Files.newBufferedReader(file)) {
            values.load(reader);
        }
        return new Options(values);
    }

    Optional<Path> path(String name) {
        return Optional.ofNullable(values.getProperty(name)).map(Path::of);
    }

    /** A positive whole number. */
    long number(String name, long otherwise) {
        String text = values.getProperty(name);
        return text == null ? otherwise : Math.max(1, Long.parseLong(text.trim()));
    }

    /** The words of a comma-separated value. */
    List<String> words(String name) {
        String text = values.getProperty(name, "").trim();
        return text.isEmpty() ? List.of() : List.of(text.split("\\s*,\\s*"));
    }

    /** The values of all names that start with {@code prefix}, in the order of their names. */
    List<String> list(String prefix) {
        return values.stringPropertyNames().stream()
                .filter(name -> name.startsWith(prefix))
                .sorted()
                .map(values::getProperty)
                .toList();
    }
}
