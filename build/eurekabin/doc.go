// Package eurekabin finds, and if need be obtains, the Eureka server that the tests run.
//
// Which one, in this order:
//
//  1. the folder that the environment variable EUREKASERVER names: jars in lib, and the class Main in classes;
//  2. the one in the user's cache folder that was made of what tools/eureka is now: its key is a hash of the files there. So a
//     fresh clone on the same machine downloads nothing again.
//
// Obtain fills the second: Maven copies the jars, of which those are kept that jars.sha256 pins, once each has the checksum that
// stands there; javac compiles the one class. The server runs on the Java that is there: where there is none, ErrNoJava says so.
//
// The package is tooling: nothing under internal/ may import it save tests.
package eurekabin
