package leadline.dealership.tools;

import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.IVersionProvider;

/**
 * Entry point. Exit code 0: done; 1: failed, or an audit did not pass; 2: the command line is wrong. Results go to
 * standard output, one line of explanation to standard error.
 */
@Command(
        name = "dealership-tools",
        description = "Data, supplier and remote caller of the dealership.",
        mixinStandardHelpOptions = true,
        versionProvider = Main.Version.class,
        subcommands = {LoadCommand.class, AuditCommand.class, PlayCommand.class, EmulateCommand.class, CallCommand.class
        })
public final class Main {
    /** Reads the version from the manifest. */
    static final class Version implements IVersionProvider {
        @Override
        public String[] getVersion() {
            String version = Main.class.getPackage().getImplementationVersion();
            return new String[] {"dealership-tools " + (version == null ? "(unpacked)" : version)};
        }
    }

    private Main() {}

    public static void main(String[] args) {
        CommandLine line = new CommandLine(new Main());
        line.setExecutionExceptionHandler((failure, command, parsed) -> {
            String text = failure.getMessage() == null ? failure.toString() : failure.getMessage();
            command.getErr().println(command.getCommandName() + ": " + text.strip());
            return 1;
        });
        System.exit(line.execute(args));
    }
}
