// Package names resolves DNS for a workload: the names of the mesh from a table that the control plane keeps up to date, all others by
// asking the name servers of /etc/resolv.conf. The kernel redirects the workload's questions from port 53 to it (package intercept).
//
//	workload ──► udp, tcp 127.0.0.1:15053 ──► table ── a name of the mesh: answered
//	                                            └────► cache ──► name servers
//
// A name is looked up as it is, then as a short name of a service ("reviews", "reviews.shop", "reviews.shop.svc"), then without a
// suffix of a resolver's search list ("db.example.com.shop.svc.cluster.local", answered with a CNAME), then among wildcards; the
// most specific one counts.
//
// It must not know where its table comes from (the relay, the disk) nor what an address belongs to.
package names
