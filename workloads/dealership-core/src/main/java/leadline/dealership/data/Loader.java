package leadline.dealership.data;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import leadline.common.Batch;
import leadline.common.Dialect;

/** Puts generated data into a database: tables, rows, indexes, statistics. What was there before is dropped. */
public final class Loader {
    /** Tables in an order in which they can be dropped. */
    public static final List<String> TABLES = List.of(
            "delivery",
            "purchase_line",
            "purchase_order",
            "part_use",
            "work_order",
            "ledger_entry",
            "back_order",
            "order_line",
            "sales_order",
            "dealer_stock",
            "part_stock",
            "finished_stock",
            "bill_of_materials",
            "part",
            "model",
            "supplier",
            "dealer",
            "generation");

    private final Connection connection;
    private final Scale scale;
    private final long seed;
    private final Generator generator;

    public Loader(Connection connection, Scale scale, long seed) {
        this.connection = connection;
        this.scale = scale;
        this.seed = seed;
        this.generator = new Generator(scale, seed);
    }

    public void load() throws SQLException {
        Dialect dialect = Dialect.of(connection);
        connection.setAutoCommit(false);
        dialect.dropTables(connection, TABLES);
        dialect.run(connection, Loader.class, "/leadline/dealership/sql/schema.sql");
        generation();
        parts();
        models();
        dealers();
        dialect.run(connection, Loader.class, "/leadline/dealership/sql/indexes.sql");
        connection.commit();
        connection.setAutoCommit(true);
        dialect.analyze(connection, TABLES);
    }

    private void generation() throws SQLException {
        try (Batch rows = new Batch(connection, "INSERT INTO generation VALUES (?, ?, ?, ?, ?, ?, ?)")) {
            rows.add(1, Generator.VERSION, scale.units(), seed, scale.dealers(), (long) scale.models(), (long)
                    scale.parts());
        }
    }

    private void parts() throws SQLException {
        try (Batch parts = new Batch(connection, "INSERT INTO part VALUES (?, ?, ?, ?)");
                Batch stocks = new Batch(connection, "INSERT INTO part_stock VALUES (?, ?, 0, ?)", parts)) {
            for (int number = 1; number <= scale.parts(); number++) {
                Generator.Part part = generator.partOf(number);
                parts.add(part.id(), part.name(), part.cost(), part.leadDays());
                stocks.add(part.id(), part.onHand(), part.onHand());
            }
        }
    }

    private void models() throws SQLException {
        try (Batch rows = new Batch(connection, "INSERT INTO supplier VALUES (?, ?)")) {
            for (int number = 1; number <= scale.suppliers(); number++) {
                rows.add((long) number, Generator.supplier(number));
            }
        }
        try (Batch models = new Batch(connection, "INSERT INTO model VALUES (?, ?, ?, ?, ?)");
                Batch stocks = new Batch(connection, "INSERT INTO finished_stock VALUES (?, ?, 0, ?)", models);
                Batch lines = new Batch(connection, "INSERT INTO bill_of_materials VALUES (?, ?, ?)", models)) {
            for (int number = 1; number <= scale.models(); number++) {
                Generator.Vehicle model = generator.modelOf(number);
                models.add(model.id(), model.name(), model.description(), model.price(), model.supplier());
                stocks.add(model.id(), model.finished(), model.finished());
                for (Map.Entry<String, Integer> part : model.parts().entrySet()) {
                    lines.add(model.id(), part.getKey(), part.getValue());
                }
            }
        }
    }

    private void dealers() throws SQLException {
        try (Batch dealers = new Batch(connection, "INSERT INTO dealer VALUES (?, ?, ?, ?, ?, ?, 0, NULL)");
                Batch stocks = new Batch(connection, "INSERT INTO dealer_stock VALUES (?, ?, ?, ?)", dealers)) {
            for (long from = 1; from <= scale.dealers(); from += Batch.ROWS) {
                long to = Math.min(scale.dealers(), from + Batch.ROWS - 1);
                List<String> hashes = LongStream.rangeClosed(from, to)
                        .parallel()
                        .mapToObj(generator::passwordHash)
                        .toList();
                for (long id = from; id <= to; id++) {
                    Generator.Dealer dealer = generator.dealerOf(id, hashes.get((int) (id - from)));
                    dealers.add(
                            id,
                            dealer.name(),
                            dealer.passwordHash(),
                            dealer.creditLimit(),
                            dealer.openingBalance(),
                            dealer.openingBalance());
                    for (Map.Entry<String, Integer> stock : dealer.stock().entrySet()) {
                        stocks.add(id, stock.getKey(), stock.getValue(), stock.getValue());
                    }
                }
            }
        }
    }
}
