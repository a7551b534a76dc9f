// Package truth has pilotctl's verbs that tell whether changes are in force (wait) and what happened (history). It asks control planes
// through Session and prints their answers. It must not know how they are found and reached.
package truth

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"
)

// Session is the selected control planes and the format of the output.
type Session interface {
	// Planes returns all selected control planes. It fails if one of them cannot be reached: the answer would be for a part of the proxies.
	Planes(context.Context) ([]Plane, error)
	Format() string
	Close() // ends the connections
}

// Plane is one control plane.
type Plane interface {
	Called() string // its pod, or its address
	// Fetch reads a page of JSON.
	Fetch(ctx context.Context, path string, query url.Values, into any) error
}

// Commands returns the verbs.
func Commands(s Session) []*cobra.Command { return []*cobra.Command{wait(s), history(s)} }
