/** Command line of the brokerage's data: load, audit, digest, replay. */
package leadline.brokerage.tools;
