package leadline.dealership.data;

import java.sql.Connection;
import java.sql.JDBCType;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.function.LongFunction;
import java.util.stream.LongStream;
import leadline.common.Batches;
import leadline.common.Dialect;
import leadline.common.Schema;
import leadline.common.Sink;

/** Puts generated data into a database: tables, rows, indexes, statistics. What was there before is dropped. */
public final class Loader {
    public static final Schema SCHEMA = new Schema(Loader.class, "/leadline/dealership/sql/schema.sql");

    private Loader() {}

    public static void load(Connection connection, Scale scale, long seed) throws SQLException {
        Dialect dialect = Dialect.of(connection);
        Generator generator = new Generator(scale, seed);
        connection.setAutoCommit(false);
        SCHEMA.create(connection, dialect);
        try (Batches rows = new Batches(connection, SCHEMA)) {
            rows(scale, seed, generator::passwordHash, rows);
        }
        dialect.run(connection, Loader.class, "/leadline/dealership/sql/indexes.sql");
        connection.commit();
        connection.setAutoCommit(true);
        SCHEMA.analyze(connection, dialect);
    }

    /** All rows, with the given hashes of passwords. */
    public static void rows(Scale scale, long seed, LongFunction<String> hashes, Sink rows) throws SQLException {
        Generator generator = new Generator(scale, seed);
        rows.add("generation", 1, Generator.VERSION, scale.units(), seed, scale.dealers(), (long) scale.models(), (long)
                scale.parts());
        for (int number = 1; number <= scale.parts(); number++) {
            Generator.Part part = generator.partOf(number);
            rows.add("part", part.id(), part.name(), part.cost(), part.leadDays());
            rows.add("part_stock", part.id(), part.onHand(), 0, part.onHand());
        }
        for (int number = 1; number <= scale.suppliers(); number++) {
            rows.add("supplier", (long) number, Generator.supplier(number));
        }
        for (int number = 1; number <= scale.models(); number++) {
            Generator.Vehicle model = generator.modelOf(number);
            rows.add("model", model.id(), model.name(), model.description(), model.price(), model.supplier());
            rows.add("finished_stock", model.id(), model.finished(), 0, model.finished());
            for (Map.Entry<String, Integer> part : model.parts().entrySet()) {
                rows.add("bill_of_materials", model.id(), part.getKey(), part.getValue());
            }
        }
        for (long from = 1; from <= scale.dealers(); from += Batches.ROWS) {
            long to = Math.min(scale.dealers(), from + Batches.ROWS - 1);
            List<String> hashed =
                    LongStream.rangeClosed(from, to).parallel().mapToObj(hashes).toList();
            for (long id = from; id <= to; id++) {
                dealer(id, generator.dealerOf(id, hashed.get((int) (id - from))), rows);
            }
        }
    }

    private static void dealer(long id, Generator.Dealer dealer, Sink rows) throws SQLException {
        rows.add(
                "dealer",
                id,
                dealer.name(),
                dealer.passwordHash(),
                dealer.creditLimit(),
                dealer.openingBalance(),
                dealer.openingBalance(),
                0L,
                JDBCType.TIMESTAMP);
        for (Map.Entry<String, Integer> stock : dealer.stock().entrySet()) {
            rows.add("dealer_stock", id, stock.getKey(), stock.getValue(), stock.getValue());
        }
    }
}
