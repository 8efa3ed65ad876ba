package leadline.common;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import javax.sql.DataSource;

/** A pool of one for one thread: closing what it lends keeps it open. */
public final class SingleConnection {
    private SingleConnection() {}

    public static DataSource source(Connection connection) {
        ClassLoader loader = SingleConnection.class.getClassLoader();
        Connection lent =
                (Connection) Proxy.newProxyInstance(loader, new Class<?>[] {Connection.class}, (p, m, args) -> {
                    if (m.getName().equals("close")) {
                        return null;
                    }
                    try {
                        return m.invoke(connection, args);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
        return (DataSource) Proxy.newProxyInstance(loader, new Class<?>[] {DataSource.class}, (p, m, args) -> {
            if (m.getName().equals("getConnection")) {
                return lent;
            }
            throw new UnsupportedOperationException(m.getName());
        });
    }
}
