// Package machine joins machines without an orchestrator to a mesh, with just what `pilotctl workload config` wrote for
// them, and has their applications fail and come back under load: real agents, real Envoys, mutual TLS.
package machine
