/** What the applications share: money, passwords, statements on JDBC, the words of two databases, audits. */
package leadline.common;
