/**
 * Session beans by their remote interface, for callers inside the server and outside. RMI-IIOP has no form for records,
 * so they travel in parcels, which cost nothing where the server passes references.
 */
package leadline.dealership.remote;
