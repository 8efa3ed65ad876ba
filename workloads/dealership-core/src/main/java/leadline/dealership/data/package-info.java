/** The seeded data: how much, what, and how it gets into a database. */
package leadline.dealership.data;
