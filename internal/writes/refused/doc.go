// Package refused has whoever writes statuses know what proxies refuse that are connected to other control planes: each keeps a Lease
// of its own that says so, for as long as there is something to say, and the leader listens to all of them.
//
// What it hears is for statuses alone. It must not know what a status is, and nothing that it hears may become an input.
package refused
