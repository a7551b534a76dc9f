// Package truth has pilotctl's verbs about objects (applies, explain), requests (explain), lines of access logs (explain), changes on their
// way (wait) and turns (history). logline finds the object behind a line.
// They ask control planes through Session, and print the answers. It must not know how control planes are found and reached.
package truth

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"fairway/internal/config"
)

// Session is the selected control planes and the format of the output.
type Session interface {
	// Planes returns the selected control planes that can be reached. The error says which cannot: each knows its own proxies.
	Planes(context.Context) ([]Plane, error)
	// Generation returns the generation of an object in the cluster of the selected control planes; 0: it is not there, or no cluster is
	// known.
	Generation(context.Context, config.Key) (int64, error)
	Format() string
	Close() // ends the connections
}

// Plane is one control plane.
type Plane interface {
	Called() string // its pod, or its address
	// Fetch reads a page of JSON.
	Fetch(ctx context.Context, path string, query url.Values, into any) error
	// Get reads a page as it is. If the control plane answers with an error, Get returns an AnswerError.
	Get(ctx context.Context, path string, query url.Values) ([]byte, error)
	// Post sends JSON to a page, and reads its answer as JSON.
	Post(ctx context.Context, path string, body, into any) error
	// Change posts to a page that changes something by its query, and reads its answer as JSON.
	Change(ctx context.Context, path string, query url.Values, into any) error
}

// AnswerError is an answer of a control plane that is an error.
type AnswerError struct {
	Status int // of HTTP
	Text   string
}

func (e *AnswerError) Error() string { return e.Text }

// Commands returns the verbs.
func Commands(s Session) []*cobra.Command {
	return []*cobra.Command{applies(s), explain(s), wait(s), history(s)}
}
