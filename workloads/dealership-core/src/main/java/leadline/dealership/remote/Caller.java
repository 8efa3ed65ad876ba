package leadline.dealership.remote;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import leadline.common.Parcel;
import leadline.dealership.domain.Dealership;

/** The operations for who calls the remote interface: a servlet of the same server, or a program outside. */
public final class Caller {
    private Caller() {}

    public static Dealership of(RemoteDealership bean) {
        ClassLoader loader = Caller.class.getClassLoader();
        return (Dealership) Proxy.newProxyInstance(
                loader, new Class<?>[] {Dealership.class}, (proxy, method, arguments) -> call(bean, method, arguments));
    }

    private static Object call(RemoteDealership bean, Method method, Object[] arguments) {
        List<Object> sent = arguments == null ? List.of() : Arrays.asList(arguments);
        Object result = bean.call(method.getName(), Parcel.of(sent)).open();
        return method.getReturnType() == Optional.class ? Optional.ofNullable(result) : result;
    }
}
