// Package health writes into the status of a WorkloadEntry what agents say of the application there: a condition Healthy, as Istio's
// control plane does. An agent speaks to one control plane; the others read what that one wrote.
//
//	Said: what agents say here, as turns change ─┐
//	Seen: what stands in the status              ├─► a patch, where another condition stands, or another control plane's
//
// Whoever hears an agent writes, without a Lease: nobody else knows it. When no agent speaks any more the condition becomes Unknown,
// unless another control plane has written since. A control plane that is killed says nothing any more: the condition's reason names
// it, and the leader makes the condition Unknown once it is gone. The package must not know proxies, nor what the condition is good for.
package health
