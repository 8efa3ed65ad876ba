/** Command logs: what they hold, seeded ones, and playing them in any interleaving. */
package leadline.brokerage.replay;
