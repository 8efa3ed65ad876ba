/** Checks on the data after a run: audits, and a digest to compare final states. */
package leadline.brokerage.check;
