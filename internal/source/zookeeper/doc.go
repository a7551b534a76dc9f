// Package zookeeper reads the registry that Dubbo and Spring Cloud keep in ZooKeeper.
//
//	session ─► watches ─► paths that changed ─► readers ─► tree ─► services of an interface, or an application ─► platform.Translator
//	   │                                                     │
//	   guard: every answer is looked at before the           what is missing after a new session is kept for a while
//	   client library decodes it
//
// The tree is the state that was read; one goroutine owns it. A session that ends is followed by another, which reads everything
// again: unchanged nodes change nothing. The protocol of ZooKeeper is github.com/go-zookeeper/zk's, which has no recursive watches:
// each node that is followed has one of its own.
package zookeeper
