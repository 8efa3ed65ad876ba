/**
 * Orders through a queue and quotes on a topic. These classes are in the archive {@code brokerage-queue.war} only, so
 * that orders filled at once cost no messaging.
 */
package leadline.brokerage.messaging;
