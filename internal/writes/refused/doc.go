// Package refused shares what proxies refuse with the control plane that writes statuses. Each control plane keeps a Lease of its own
// with the refusals of its proxies, while there are any, and the leader reads all of these Leases.
//
// The leader makes statuses from these refusals, and nothing else. The package must not know what a status is.
package refused
