// Package workload writes the folder that a machine without an orchestrator needs to join the mesh: who it is, where
// the control plane is and what that is known by, a token that admits it once, how its application is checked, and a
// unit that runs the agent.
//
// It works on files alone: it opens no port, because a server would give tokens to any client. It must not know how an agent reads what it
// writes; names and forms are those of Istio's own files for machines (istio.io, "Virtual
// Machine Installation").
package workload
