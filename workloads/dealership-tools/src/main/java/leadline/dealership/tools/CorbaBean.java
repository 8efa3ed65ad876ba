package leadline.dealership.tools;

import java.util.List;
import leadline.common.Parcel;
import leadline.dealership.remote.RemoteDealership;
import org.omg.CORBA.ORB;
import org.omg.CORBA.portable.ApplicationException;
import org.omg.CORBA.portable.RemarshalException;
import org.omg.CORBA.portable.UnknownException;
import org.omg.CORBA_2_3.portable.InputStream;
import org.omg.CORBA_2_3.portable.ObjectImpl;
import org.omg.CORBA_2_3.portable.OutputStream;

/**
 * The plant's remote interface over IIOP, for servers whose own client has no JNDI outside a container. The ORB is the
 * one that the system properties name.
 */
final class CorbaBean extends ObjectImpl implements RemoteDealership {
    private static final String[] IDS = {"RMI:" + RemoteDealership.class.getName() + ":0000000000000000"};

    private CorbaBean() {}

    /** Asks the server's naming service, at a {@code corbaname} address. */
    static RemoteDealership find(String address) {
        org.omg.CORBA.Object found = ORB.init(new String[0], null).string_to_object(address);
        CorbaBean bean = new CorbaBean();
        bean._set_delegate(((org.omg.CORBA.portable.ObjectImpl) found)._get_delegate());
        return bean;
    }

    @Override
    public String[] _ids() {
        return IDS.clone();
    }

    @Override
    @SuppressWarnings("unchecked")
    public Parcel<Object> call(String operation, Parcel<List<Object>> arguments) {
        while (true) {
            InputStream in = null;
            try {
                OutputStream out = (OutputStream) _request("call", true);
                out.write_value(operation, String.class);
                out.write_value(arguments, Parcel.class);
                in = (InputStream) _invoke(out);
                return (Parcel<Object>) in.read_value(Parcel.class);
            } catch (UnknownException e) {
                if (e.originalEx instanceof RuntimeException thrown) {
                    throw thrown;
                }
                throw e;
            } catch (ApplicationException e) {
                throw new IllegalStateException(e.getId());
            } catch (RemarshalException e) {
                continue; // the server is elsewhere now
            } finally {
                _releaseReply(in);
            }
        }
    }
}
