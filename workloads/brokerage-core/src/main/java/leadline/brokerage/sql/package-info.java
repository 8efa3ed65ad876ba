/** The brokerage on JDBC: every statement, the operations on a connection, and mode {@code direct}. */
package leadline.brokerage.sql;
