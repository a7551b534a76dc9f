package ctl

import (
	"context"

	"github.com/spf13/cobra"

	"fairway/internal/ctl/authz"
	"fairway/internal/ctl/check"
	"fairway/internal/ctl/logging"
	"fairway/internal/ctl/proxyconfig"
	"fairway/internal/ctl/remote"
	"fairway/internal/ctl/tags"
	"fairway/internal/ctl/truth"
)

// operating returns the verbs for those who operate a mesh.
func (s *session) operating(version string) []*cobra.Command {
	return []*cobra.Command{
		check.Command(checked{s}, version, &s.cluster), remote.Command(&s.cluster), tags.Command(s, &s.cluster),
		authz.Command(s), logging.Command(s), proxyconfig.Describe(s, s.RootNamespace),
	}
}

// checked is the session as the verb check sees it.
type checked struct{ *session }

// InCluster implements check.Session.
func (c checked) InCluster(ctx context.Context) (bool, error) { return c.inCluster(ctx) }

// Clocked implements check.Session.
func (c checked) Clocked(of truth.Plane) *check.Clock {
	clock := &check.Clock{}
	if plane, ok := of.(*client); ok {
		clock.Next = plane.http.Transport
		plane.http.Transport = clock
	}
	return clock
}
