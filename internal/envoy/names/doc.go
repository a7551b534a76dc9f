// Package names encodes and decodes name tables: the names of the mesh, for agents that resolve DNS for their workloads. The message is
// Istio's NDS (istio.networking.nds.v1.NameTable), so that its agents understand this control plane and this agent understands istiod.
//
// It must not know which names exist (compile/names) nor how agents request them (agent/names).
package names
