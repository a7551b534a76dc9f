// Package absent finds names in objects that nothing in a mesh has: callers of AuthorizationPolicies that no workload is, Services that
// select no pod, and names of ports that no container of a pod has.
//
// It runs once, over all objects that were read. Known says which places were read; a name that may exist in another place is not reported.
// The judgements are compile/lacking's, which a control plane has too.
// The package must not know how objects are read. Start reading at Known.Problems.
package absent
