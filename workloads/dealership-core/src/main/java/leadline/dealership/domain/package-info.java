/** What the dealership is about: values, rules and the operations every mode offers. No input or output. */
package leadline.dealership.domain;
