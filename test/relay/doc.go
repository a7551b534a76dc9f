// Package relay runs real pilot-agents with real Envoys that get their configuration through the agent's relay, over
// mutual TLS, and takes the control plane away: Envoys that start meanwhile serve as before, and a control plane that
// comes back sends nothing again. A gateway beside them shows that credentials from Secrets are on no disk.
//
// Nothing sleeps: tests wait on pages, on exits and on answers, each within a bound. They need an Envoy, and are
// skipped without one and with -short.
package relay
