// Package lacking notes what objects name and nothing in the mesh has: callers of AuthorizationPolicies that no workload is (NoCaller),
// selectors of Kubernetes Services that select no pod (NoEndpoints), and names of target ports that no container has (UnknownPort).
//
// The judgements are pure (Callers, Podless, Untargeted). The analyzer makes them too, and knows more: ServiceAccounts and containers.
// Declare makes the tables by which a control plane notes these problems as the mesh changes. Nothing is noted before all sources have
// been read. Accounts and labels of workloads are only indexed while a policy names a caller, or a Service has an empty slice.
//
// The package must not know how objects are read. Start reading at Declare.
package lacking
