/** The dealership on JDBC: every statement, the operations on a connection, and mode {@code direct}. */
package leadline.dealership.sql;
