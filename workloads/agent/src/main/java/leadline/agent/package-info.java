/** Samples a running JVM from inside and writes what it sees to a file. */
package leadline.agent;
