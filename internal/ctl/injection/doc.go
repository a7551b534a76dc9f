// Package injection has pilotctl's verbs about the webhooks of a cluster that put proxies into pods: which there are, and which of them
// inject a pod. It reads the cluster alone, and must not know control planes.
package injection

import "github.com/spf13/cobra"

// Session runs verbs as the global flags say.
type Session interface {
	Format() string // of the output
	// Run marks the errors of a command that was parsed.
	Run(do func(*cobra.Command, []string) error) func(*cobra.Command, []string) error
}
