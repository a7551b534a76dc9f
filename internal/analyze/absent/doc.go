// Package absent finds names in objects that nothing in a mesh has: callers of AuthorizationPolicies that no workload is, Services that
// select no pod, and names of ports that no container of a pod has.
//
// It judges everything that was read, once: Known says how much that is, and nothing is noted that may exist where nobody looked. It must
// not know how objects are read. Start reading at Known.Problems.
package absent
