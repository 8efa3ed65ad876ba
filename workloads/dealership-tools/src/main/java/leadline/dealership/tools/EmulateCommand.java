package leadline.dealership.tools;

import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code emulate}: the supplier, until it is stopped. */
@Command(
        name = "emulate",
        description =
                "Take purchase orders (POST /orders) and deliver their parts after a while; GET /orders counts them.",
        mixinStandardHelpOptions = true,
        sortOptions = false)
final class EmulateCommand implements Callable<Integer> {
    @Option(names = "--host", description = "address to listen on, default ${DEFAULT-VALUE}")
    private String host = "127.0.0.1";

    @Option(names = "--port", required = true, description = "port to listen on; 0 takes a free one")
    private int port;

    @Option(names = "--delay", required = true, description = "mean time to a delivery, seconds")
    private double delay;

    @Option(names = "--seed", required = true, description = "seed of the delays")
    private long seed;

    @Option(
            names = "--deliver-to",
            required = true,
            description = "address of the application with its context root; deliveries go to /api/deliveries there")
    private String deliverTo;

    @Option(names = "--journal", required = true, description = "file that keeps the orders when the process is killed")
    private Path journal;

    @Option(names = "--attempts", description = "of one delivery before it is given up, default ${DEFAULT-VALUE}")
    private int attempts = 20;

    @Option(
            names = "--pause",
            description = "seconds before the second attempt, then doubled, default ${DEFAULT-VALUE}")
    private double pause = 0.5;

    @Override
    public Integer call() throws Exception {
        if (!(delay >= 0 && delay <= 3_600)) {
            throw new IllegalArgumentException("--delay must be 0 to 3600 seconds, got " + delay);
        }
        if (attempts < 1 || !(pause > 0)) {
            throw new IllegalArgumentException(
                    "--attempts must be 1 or more, --pause more than 0, got " + attempts + " and " + pause);
        }
        URI target = URI.create(deliverTo.replaceAll("/$", "") + "/api/deliveries");
        Emulator.Settings settings = new Emulator.Settings(target, delay, seed, attempts, pause);
        try (Emulator emulator = new Emulator(new InetSocketAddress(host, port), journal, settings)) {
            System.out.println("listens on http://" + host + ":"
                    + emulator.address().getPort() + "/orders, delivers to " + target);
            new CountDownLatch(1).await();
        }
        return 0;
    }
}
