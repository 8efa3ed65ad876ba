/** Pages and JSON of the application as servlets, for archives and for programs with a server inside. */
package leadline.dealership.web;
