// Package eureka is the source of Eureka servers: applications, or virtual addresses, become services, and instances become their
// endpoints.
//
//	peers ─► all there is, then what changed, each refresh ─► state ─► platform.Book ─► platform.Outbox
//
// Changes (/apps/delta) are applied to the last state, and checked against the servers' own count of instances by status
// (apps__hashcode): if the two differ, everything is read again, as it is after a server did not answer, or another one does.
//
// A server that was started anew holds nothing until its applications have registered again. So an instance that is missing stays for a
// while (platform.Missing), unless a server said that it left.
//
// Records are compact, and equal words are held once. The package must not know what rows are made of instances, nor which of them stay
// (platform).
package eureka
