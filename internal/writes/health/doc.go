// Package health writes what agents report about their applications into the status of WorkloadEntries: a condition Healthy, as Istio's
// control plane does. An agent is connected to one control plane; the other control planes read what that one wrote.
//
//	Said: what agents say here, as turns change ─┐
//	Seen: the condition in the status            ├─► a patch, if the condition differs, or another control plane wrote it
//
// The control plane that an agent is connected to writes, without a Lease: no other control plane knows the report. When no agent
// reports any more the condition becomes Unknown, unless another control plane has written since. A control plane that is killed cannot
// do this: the condition's reason names it, and the leader makes the condition Unknown once it is gone. The package must not know
// proxies, nor the use of the condition.
package health
