package leadline.brokerage.replay;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;
import leadline.brokerage.domain.Brokerage;
import leadline.brokerage.domain.BrokerageException;
import leadline.brokerage.domain.BuyCommand;
import leadline.brokerage.domain.SellCommand;

/** Plays commands against the operations themselves. */
public final class BrokeragePlayer implements Player {
    private final Brokerage brokerage;
    private final Connection connection;
    private final Map<String, Long> accounts = new HashMap<>();

    /** {@code connection} is closed with the player. */
    public BrokeragePlayer(Brokerage brokerage, Connection connection) {
        this.brokerage = brokerage;
        this.connection = connection;
    }

    @Override
    public boolean play(Command command) {
        try {
            if (command instanceof Command.Login c) {
                accounts.put(c.user(), brokerage.login(c.user(), c.password()).account());
            } else if (command instanceof Command.Register c) {
                accounts.put(c.user(), brokerage.register(c.registration()).account());
            } else if (command instanceof Command.UpdateProfile c) {
                brokerage.updateProfile(account(c), c.profile());
            } else if (command instanceof Command.Buy c) {
                brokerage.buy(account(c), new BuyCommand(c.symbol(), c.quantity(), c.quote(), c.command()));
            } else if (command instanceof Command.Sell c) {
                brokerage.sell(account(c), new SellCommand(null, c.boughtBy(), c.quote(), c.command()));
            }
            return true;
        } catch (BrokerageException e) {
            return false;
        }
    }

    private long account(Command command) {
        Long account = accounts.get(command.user());
        if (account == null) {
            throw new IllegalStateException("the log has a command of " + command.user() + " before a login");
        }
        return account;
    }

    @Override
    public void close() throws SQLException {
        connection.close();
    }
}
