/** Command line of the dealership: load, audit, and the supplier emulator. */
package leadline.dealership.tools;
