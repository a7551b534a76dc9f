// Package eurekaserver runs real Eureka servers for tests (build/eurekabin has them), one or several that are peers, and speaks to
// them as applications do: they register, renew their leases, and leave.
//
// The servers' caches and timers are those of tests: an answer is at most a second old, and leases are looked at each second.
package eurekaserver
