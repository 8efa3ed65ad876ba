package leadline.dealership.remote;

import java.util.List;
import leadline.common.Parcel;

/** The operations of {@link leadline.dealership.domain.Dealership} for callers whose values are copied. */
public interface RemoteDealership {
    /**
     * Does one operation.
     *
     * @param operation name of a method of the operations; no two have the same
     * @param arguments of the method, in order
     * @return its result; what an Optional holds, or null
     */
    Parcel<Object> call(String operation, Parcel<List<Object>> arguments);
}
