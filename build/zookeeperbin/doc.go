// Package zookeeperbin finds, and if need be obtains, the jars of the ZooKeeper server that the tests run.
//
// Which ones, in this order:
//
//  1. the folder that the environment variable ZOOKEEPERLIB names;
//  2. the one in the user's cache folder that was filled by what tools/zookeeper is now: its key is a hash of the files
//     there, pom.xml and jars.sha256. So a fresh clone on the same machine downloads nothing again.
//
// Obtain fills the second from Maven Central, by Maven. Each jar has to have the checksum that jars.sha256 pins; those that it
// does not list are left out. The server runs on the Java that is there: where there is none, ErrNoJava says so.
//
// The package is tooling: nothing under internal/ may import it save tests.
package zookeeperbin
