/** The archive's side of the web application: the modes that a server is asked for, and where it has its beans. */
package leadline.dealership.container;
