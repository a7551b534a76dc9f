// Package relay runs real pilot-agents with real Envoys whose configuration comes through the agent's relay, over
// mutual TLS, and takes the control plane away: Envoys that start meanwhile serve as before, and a control plane that
// comes back sends nothing again. A gateway beside shows what becomes of credentials from Secrets, which are on no
// disk.
//
// Nothing sleeps: tests wait on pages, on exits and on answers, each within a bound. They need an Envoy, and are
// skipped without one and with -short.
package relay
