/** Mode {@code session}: JDBC inside a stateless session bean. */
package leadline.brokerage.session;
