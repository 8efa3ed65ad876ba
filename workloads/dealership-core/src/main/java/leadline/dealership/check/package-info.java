/** Audits of the data after a run, and faults that show each audit failing. */
package leadline.dealership.check;
