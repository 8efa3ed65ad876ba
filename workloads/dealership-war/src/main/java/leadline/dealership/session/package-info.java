/** Mode {@code session}: JDBC inside a stateless session bean. */
package leadline.dealership.session;
