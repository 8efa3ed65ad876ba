package leadline.agent;

import java.io.IOException;
import javax.management.JMException;

/** Reads one kind of figures and adds them to a sample. */
interface Probe {
    void sample(SampleFile out) throws JMException, ReflectiveOperationException, IOException;
}
