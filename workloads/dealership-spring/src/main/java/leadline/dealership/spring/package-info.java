/** The application as a program of Spring Boot: its embedded Tomcat, its pool. */
package leadline.dealership.spring;
