/** The application as a program of Quarkus: its servlets on Vert.x, its pool. */
package leadline.dealership.quarkus;
