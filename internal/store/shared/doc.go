// Package shared keeps small records in etcd that live no longer than the control plane that wrote them, and reads those of other control
// planes.
//
// Each control plane writes below a key of its own, under a lease that it renews. If it dies, etcd deletes its records once the lease has
// run out. A control plane that loses its lease (an outage, an etcd without its data) writes its records again under a new one.
//
// While etcd is away the records of others stay as they were read. Records that are missing after a new connection stay as long as a
// lease lasts: their writers may be on their way back too.
//
// The package must not know what a record says. store calls etcd.
package shared
