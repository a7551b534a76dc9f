package nomad

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/source/platform"
)

// Options of a Source. urls are those of Nomad's servers or agents, as https://host:4646; tokenFile holds an ACL token, which has to
// have read-job in the namespaces.
type Options struct {
	platform.Naming
	servers.Reach
	platform.Limits
	// Missing says how long an instance stays that a list lacks, if a server may have lost it; empty: 90s.
	platform.Missing

	// Namespaces are those that are read; empty: all, which takes a management token, or a policy for all namespaces.
	Namespaces []string `json:"namespaces,omitempty"`
	// Region is Nomad's that is read; empty: the servers' own.
	Region string `json:"region,omitempty"`
}

const (
	everywhere    = "*" // stands for all namespaces
	maxNamespaces = 64  // each has a connection of its own
	maxName       = 128 // bytes of a namespace and a region, as Nomad has it
	defaultKeep   = 90 * time.Second
)

// Validate returns every mistake as an error, each by its field.
func (o Options) Validate() error {
	errs := []error{o.Naming.Validate(), o.Reach.Validate(), o.Limits.Validate(), o.Missing.Validate()}
	for i, text := range o.URLs {
		if u, err := url.Parse(text); err == nil && strings.Trim(u.Path, "/") != "" {
			errs = append(errs, fmt.Errorf("urls[%d]: %q has a path, which Nomad's client does not use", i, shown(text)))
		}
	}
	if len(o.Namespaces) > maxNamespaces {
		errs = append(errs, fmt.Errorf("namespaces: %d are too many; want at most %d, or none for all", len(o.Namespaces), maxNamespaces))
	}
	for i, n := range o.Namespaces {
		switch {
		case n == "" || !printable.Is(n, maxName):
			errs = append(errs, fmt.Errorf("namespaces[%d]: %q is not a name", i, shown(n)))
		case n == everywhere && len(o.Namespaces) > 1:
			errs = append(errs, fmt.Errorf("namespaces[%d]: %s means all; leave the others out", i, everywhere))
		case slices.Contains(o.Namespaces[:i], n):
			errs = append(errs, fmt.Errorf("namespaces[%d]: %q is there twice", i, shown(n)))
		}
	}
	if !printable.Is(o.Region, maxName) {
		errs = append(errs, fmt.Errorf("region: %q is not a name", shown(o.Region)))
	}
	return errors.Join(errs...)
}

func shown(s string) string { return printable.Text(s, printable.Short) }
