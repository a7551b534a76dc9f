package ctl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"strings"

	"google.golang.org/grpc"
	"k8s.io/client-go/rest"

	"fairway/internal/config"
	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/truth"
	"fairway/internal/dev/folder"
)

// localAddress is used if neither a flag nor a cluster selects a control plane.
const localAddress = "127.0.0.1:8080"

// Ports on which a control plane's pod serves its pages, as the chart has them.
const (
	pagesPort  = 15014
	securePort = 15017
)

// session holds the global flags, and the connections that were opened for them.
type session struct {
	address, format string
	own             string // the version of this program
	credentials     credentials
	cluster         cluster.Flags
	opened          []*cluster.Forwarded
	quiet           bool // a shell reads the output
}

// close closes the connections that the command opened.
func (s *session) close() {
	for _, f := range s.opened {
		f.Close()
	}
	s.opened = nil
}

// inCluster reports whether control planes are to be looked up in a cluster: if no flag names an address, no pilot-discovery dev of this
// user runs on this machine, or a flag names the cluster, and there is a kubeconfig.
func (s *session) inCluster(ctx context.Context) (bool, error) {
	if s.address != "" && s.cluster.Named() {
		return false, errors.New("--address and --kubeconfig or --context: want one of them")
	}
	if s.address == "" && !s.cluster.Named() && s.isDev(ctx) {
		return false, nil
	}
	return s.address == "" && s.cluster.Known(), nil
}

// isDev reports whether a pilot-discovery dev of this user runs on this machine. The address is then its. A user with a kubeconfig, who may
// mean the cluster, reads that on standard error.
func (s *session) isDev(ctx context.Context) bool {
	plane, runs := folder.Default().Running(ctx)
	if !runs {
		return false
	}
	if s.address = plane.Pages; s.cluster.Known() && !s.quiet {
		fmt.Fprintf(os.Stderr, "pilotctl: this is about pilot-discovery dev, with the rules of %s; --context names a cluster\n",
			plane.Rules)
	}
	return true
}

// planes returns clients of the selected control planes; each is opened when the loop reaches it. A control plane that cannot be reached
// comes with its error.
func (s *session) planes(ctx context.Context) iter.Seq2[*client, error] {
	return func(yield func(*client, error) bool) {
		inside, err := s.inCluster(ctx)
		if err == nil && inside {
			s.forwarded(ctx, yield)
			return
		}
		address := s.address
		if address == "" {
			address = localAddress
		}
		var c *client
		if err == nil {
			c, err = s.credentials.client(address)
		}
		yield(c, err)
	}
}

// Planes implements truth.Session.
func (s *session) Planes(ctx context.Context) (out []truth.Plane, missing error) {
	var errs []error
	for c, err := range s.planes(ctx) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, c)
	}
	return out, errors.Join(errs...)
}

// Generation implements truth.Session.
func (s *session) Generation(ctx context.Context, k config.Key) (int64, error) {
	if inside, err := s.inCluster(ctx); err != nil || !inside {
		return 0, err
	}
	r, err := cluster.Open(s.cluster)
	if err != nil {
		return 0, err
	}
	return r.Generation(ctx, k)
}

// Format implements truth.Session.
func (s *session) Format() string { return s.format }

// Config implements planning.Session.
func (s *session) Config() (*rest.Config, error) { return s.cluster.Config() }

// RootNamespace implements planning.Session.
func (s *session) RootNamespace() string { return s.cluster.Namespace }

// Dial implements planning.Session.
func (s *session) Dial(address string) (*grpc.ClientConn, error) { return s.credentials.dial(address) }

// Close implements truth.Session.
func (s *session) Close() { s.close() }

// forwarded yields the clients of the cluster's control planes.
func (s *session) forwarded(ctx context.Context, yield func(*client, error) bool) {
	r, err := cluster.Open(s.cluster)
	var planes []cluster.Plane
	if err == nil {
		planes, err = r.Planes(ctx)
	}
	if err != nil {
		yield(nil, err)
		return
	}
	if others := r.Others(); len(others) > 0 && !s.quiet {
		fmt.Fprintf(os.Stderr, "pilotctl: these control planes of other products are left out: %s\n", strings.Join(others, ", "))
	}
	for _, p := range planes {
		if !yield(s.through(ctx, r, p)) {
			return
		}
	}
}

// through returns a client of one control plane in a cluster. It sends the user's credentials if there are any; without them the control
// plane admits it as a caller in the pod itself.
func (s *session) through(ctx context.Context, r *cluster.Reach, p cluster.Plane) (*client, error) {
	port, scheme, with := pagesPort, "http://", s.credentials
	if with.overTLS() {
		port, scheme = securePort, "https://"
		if with.serverName == "" {
			with.serverName = "istiod." + p.Namespace + ".svc"
		}
	}
	f, err := r.Forward(ctx, p, port)
	if err != nil {
		return nil, err
	}
	s.opened = append(s.opened, f)
	c, err := with.client(scheme + f.Address)
	if err != nil {
		return nil, err
	}
	c.pod = p.Name
	return c, nil
}

// ask fetches a page of the first control plane that has the answer: a proxy is connected to only one of them.
func ask[T any](ctx context.Context, s *session, path string, query url.Values) (T, error) {
	var none T
	var errs []error
	for c, err := range s.planes(ctx) {
		if err == nil {
			var out T
			if out, err = fetch[T](ctx, c, path, query); err == nil {
				return out, nil
			}
		}
		errs = append(errs, err)
	}
	return none, errors.Join(errs...)
}

// gather fetches a page that is a list, and joins the lists of all control planes. If some do not answer, it returns the other lists
// together with the error.
func gather[T any](ctx context.Context, s *session, path string, query url.Values) ([]T, error) {
	out := []T{}
	var errs []error
	for c, err := range s.planes(ctx) {
		var some []T
		if err == nil {
			some, err = fetch[[]T](ctx, c, path, query)
		}
		if err != nil {
			errs = append(errs, err)
		}
		out = append(out, some...)
	}
	return out, errors.Join(errs...)
}
