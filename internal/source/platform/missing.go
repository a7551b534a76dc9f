package platform

import (
	"fmt"
	"time"

	"fairway/internal/printable"
)

// Missing says how long instances stay that a registry no longer lists, though nothing says that they left: a server may have lost its
// state.
type Missing struct {
	// KeepMissing is for how long they count, from "0s" (not at all) to "24h"; empty: the registry's default.
	KeepMissing string `json:"keepMissing,omitempty"`
}

const mostMissing = 24 * time.Hour

// Validate returns an error if KeepMissing is invalid.
func (m Missing) Validate() error {
	if d, err := time.ParseDuration(m.KeepMissing); m.KeepMissing != "" && (err != nil || d < 0 || d > mostMissing) {
		return fmt.Errorf("keepMissing: %q; want a duration from 0s to 24h, as 90s", printable.Text(m.KeepMissing, printable.Short))
	}
	return nil
}

// Kept returns how long they stay. The options must be valid.
func (m Missing) Kept(otherwise time.Duration) time.Duration {
	if m.KeepMissing == "" {
		return otherwise
	}
	d, _ := time.ParseDuration(m.KeepMissing)
	return d
}
