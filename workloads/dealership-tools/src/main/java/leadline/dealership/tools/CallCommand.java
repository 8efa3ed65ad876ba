package leadline.dealership.tools;

import java.net.InetSocketAddress;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code call}: the remote caller, until it is stopped. */
@Command(
        name = "call",
        description = "Take the plant's requests (below /api) and do each by a remote call of the application server.",
        mixinStandardHelpOptions = true,
        sortOptions = false)
final class CallCommand implements Callable<Integer> {
    @Option(names = "--host", description = "address to listen on, default ${DEFAULT-VALUE}")
    private String host = "127.0.0.1";

    @Option(names = "--port", required = true, description = "port to listen on; 0 takes a free one")
    private int port;

    @Option(
            names = "--bean",
            required = true,
            description = "JNDI name, or corbaname address, of the plant's remote interface")
    private String bean;

    @Option(names = "--naming", description = "property of the JNDI context, KEY=VALUE; repeated")
    private Map<String, String> naming = new LinkedHashMap<>();

    @Override
    public Integer call() throws Exception {
        try (RemoteCaller caller = new RemoteCaller(new InetSocketAddress(host, port), naming, bean)) {
            System.out.println(
                    "listens on http://" + host + ":" + caller.address().getPort() + "/api, calls " + bean);
            new CountDownLatch(1).await();
        }
        return 0;
    }
}
