// Package workload writes the folder that a machine without an orchestrator needs to join the mesh: its identity, the address and root
// certificate of the control plane, a token that admits it once, the checks of its application, and a unit that runs the agent.
//
// It works on files alone: it opens no port, because a server would give tokens to any client. It must not know how an agent reads its
// files; names and forms are those of Istio's own files for machines (istio.io, "Virtual Machine Installation").
package workload
