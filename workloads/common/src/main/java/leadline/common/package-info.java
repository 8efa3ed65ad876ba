/** What the applications share: money, passwords, statements on JDBC, the words of two databases, audits, queues. */
package leadline.common;
