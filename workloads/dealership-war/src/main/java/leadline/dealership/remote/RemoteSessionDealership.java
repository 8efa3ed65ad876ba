package leadline.dealership.remote;

import jakarta.annotation.PostConstruct;
import jakarta.annotation.Resource;
import jakarta.ejb.Remote;
import jakarta.ejb.Stateless;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import javax.sql.DataSource;
import leadline.common.Parcel;
import leadline.dealership.domain.Dealership;
import leadline.dealership.session.SessionDealership;

/** Mode {@code session} by its remote interface. */
@Stateless(name = "RemoteSessionDealership")
@Remote(RemoteDealership.class)
public class RemoteSessionDealership implements RemoteDealership {
    private static final Map<String, Method> OPERATIONS = operations();

    @Resource(name = "jdbc/dealership", shareable = false)
    private DataSource source;

    private Dealership work;

    @PostConstruct
    void prepare() {
        work = new SessionDealership(source);
    }

    private static Map<String, Method> operations() {
        Map<String, Method> found = new HashMap<>();
        for (Method method : Dealership.class.getMethods()) {
            found.put(method.getName(), method);
        }
        return found;
    }

    @Override
    public Parcel<Object> call(String operation, Parcel<List<Object>> arguments) {
        Method method = OPERATIONS.get(operation);
        if (method == null) {
            throw new IllegalArgumentException("no operation " + operation);
        }
        try {
            Object result = method.invoke(work, arguments.open().toArray());
            return Parcel.of(result instanceof Optional<?> optional ? optional.orElse(null) : result);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof RuntimeException thrown) {
                throw thrown;
            }
            throw new IllegalStateException(e.getCause());
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }
}
