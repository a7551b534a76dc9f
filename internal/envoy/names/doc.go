// Package names writes and reads name tables: what an agent that resolves DNS for its workload is told of the names of
// the mesh. The message is Istio's NDS (istio.networking.nds.v1.NameTable), so that its agents understand this control
// plane and this agent understands istiod.
//
// It must not know which names there are (compile/names) nor how they are asked for (agent/names).
package names
