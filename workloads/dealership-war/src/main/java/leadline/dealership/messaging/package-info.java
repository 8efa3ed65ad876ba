/** Deliveries by way of a queue; in the archive {@code dealership-queue.war} only. */
package leadline.dealership.messaging;
