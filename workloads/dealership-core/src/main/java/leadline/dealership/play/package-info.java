/** Seeded transactions from many threads, for tests of the operations and the audits. */
package leadline.dealership.play;
