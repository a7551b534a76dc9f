package extensions

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	extensionv3 "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/agent/socket"
	"fairway/internal/printable"
	"fairway/internal/xdstype"
)

// mostNames bounds what one stream may ask for.
const mostNames = mostOrders

// server speaks the state-of-the-world protocol of extension configs to an Envoy that has shown the agent's token.
type server struct {
	extensionv3.UnimplementedExtensionConfigDiscoveryServiceServer
	set *Set
}

// listen serves on the socket until ctx ends, and runs do meanwhile.
func (s *Set) listen(ctx context.Context, do func()) error {
	l, err := socket.Listen("the socket for extensions", s.o.Socket)
	if err != nil {
		return err
	}
	defer os.Remove(s.o.Socket) // gone already where the listener was closed
	g := grpc.NewServer(append(s.o.Token.Options(), grpc.WaitForHandlers(true))...)
	extensionv3.RegisterExtensionConfigDiscoveryServiceServer(g, server{set: s})
	failed := make(chan error, 1)
	go func() { failed <- g.Serve(l) }()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		g.Stop()
		err = <-failed
	}
	<-ctx.Done()
	<-done
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// StreamExtensionConfigs answers until the client leaves.
func (v server) StreamExtensionConfigs(wire extensionv3.ExtensionConfigDiscoveryService_StreamExtensionConfigsServer) error {
	ctx := wire.Context()
	asks, failed := socket.Incoming(ctx, wire.Recv)
	var names []string
	sent, nonce := map[string]string{}, 0
	for {
		resources, versions, news := v.set.served(names)
		if len(versions) > 0 && !maps.Equal(versions, sent) {
			sent, nonce = versions, nonce+1
			if err := wire.Send(&discoveryv3.DiscoveryResponse{
				TypeUrl: xdstype.ExtensionURL, Resources: resources, VersionInfo: strconv.Itoa(nonce), Nonce: strconv.Itoa(nonce),
			}); err != nil {
				return err
			}
		}
		select {
		case r := <-asks:
			if t := r.GetTypeUrl(); t != "" && t != xdstype.ExtensionURL || len(r.GetResourceNames()) > mostNames {
				return grpcstatus.Error(codes.InvalidArgument, "extension configs alone are served here, and not so many at once")
			}
			if names = r.GetResourceNames(); r.GetErrorDetail() != nil {
				v.set.refused(names, r.GetErrorDetail().GetMessage())
			}
		case <-news:
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-ctx.Done():
			return grpcstatus.FromContextError(ctx.Err()).Err()
		}
	}
}

// served returns the configurations of names, and a channel that is closed when they may have changed.
func (s *Set) served(names []string) (resources []*anypb.Any, versions map[string]string, news <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions = map[string]string{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if st := s.states[name]; st != nil && st.served != nil {
			resources = append(resources, st.served)
			versions[name] = st.version
		}
	}
	return resources, versions, s.news
}

// refused notes that Envoy cannot run its configuration: it is reported to the control plane until the order changes.
func (s *Set) refused(names []string, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if st := s.states[name]; st != nil && st.served != nil {
			st.why = "Envoy refuses it: " + printable.Lines(why, printable.Short)
			s.o.Log.Error("envoy refuses a Wasm module", "extension", printable.Text(name, printable.Short), "error", why)
		}
	}
	s.wake()
}
