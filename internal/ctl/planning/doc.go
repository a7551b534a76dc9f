// Package planning has pilotctl's verb about changes that are not made yet (plan), and the one that puts the input and the state of control
// planes into an archive (bug-report). Control planes are asked for snapshots (package snapshot); the rest happens in this process.
package planning

import (
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"

	"fairway/internal/ctl/truth"
)

// Session is the selected control planes, the format of the output, and the cluster of the kubeconfig.
type Session interface {
	truth.Session
	// Config returns how the kubeconfig's cluster is reached, and RootNamespace the namespace of its control plane.
	Config() (*rest.Config, error)
	RootNamespace() string
	// Dial connects to where another control plane serves xDS, with the credentials of the flags.
	Dial(address string) (*grpc.ClientConn, error)
}

// Commands returns the verbs.
func Commands(s Session) []*cobra.Command { return []*cobra.Command{planned(s), report(s)} }
