/** Mode {@code orm}: the same tables as entities, the same operations on them in a stateless session bean. */
package leadline.brokerage.orm;
