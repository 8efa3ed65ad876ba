/**
 * Session beans by their remote interface. RMI-IIOP has no form for records, so they travel in parcels, which cost
 * nothing where the server passes references.
 */
package leadline.dealership.remote;
