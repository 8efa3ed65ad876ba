/** Pages and JSON over HTTP. Knows the operations, not how a mode does them. */
package leadline.dealership.web;
