package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"fairway/internal/agent/socket"
	"fairway/internal/xdstype"
)

// server speaks SDS: one resource type, few names, and a client that may be trusted, because it has shown the agent's token.
type server struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer
	secrets *Secrets
}

// ask is a request of either protocol.
type ask struct {
	names    []string // state of the world: all that is wanted from now on
	add, del []string // delta
	initial  map[string]string
	nonce    string
	refusal  *status.Status
}

// stream is one stream of a client. Only its handler's goroutine uses it.
type stream struct {
	secrets  *Secrets
	delta    bool
	follower *follower
	release  map[string]func()
	sent     map[string]string            // name → version on the wire
	pending  map[string]map[string]string // nonce → what the response had
	nonce    uint64
	send     func(names []string, with map[string]resource, nonce string) error
}

// StreamSecrets serves the state-of-the-world protocol.
func (s server) StreamSecrets(wire secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	c := s.secrets.newStream(false)
	c.send = func(names []string, with map[string]resource, nonce string) error {
		out := &discoveryv3.DiscoveryResponse{TypeUrl: xdstype.SecretURL, Nonce: nonce}
		var versions [][]byte
		for _, n := range names {
			out.Resources = append(out.Resources, with[n].body)
			versions = append(versions, []byte(with[n].version))
		}
		out.VersionInfo = digest(versions...)
		return wire.Send(out)
	}
	return c.run(wire.Context(), func() (ask, error) {
		r, err := wire.Recv()
		return ask{names: r.GetResourceNames(), nonce: r.GetResponseNonce(), refusal: r.GetErrorDetail()}, wrongType(r, err)
	})
}

// DeltaSecrets serves the incremental protocol.
func (s server) DeltaSecrets(wire secretv3.SecretDiscoveryService_DeltaSecretsServer) error {
	c := s.secrets.newStream(true)
	c.send = func(names []string, with map[string]resource, nonce string) error {
		out := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: xdstype.SecretURL, Nonce: nonce}
		for _, n := range names {
			out.Resources = append(out.Resources, &discoveryv3.Resource{Name: n, Version: with[n].version, Resource: with[n].body})
		}
		return wire.Send(out)
	}
	return c.run(wire.Context(), func() (ask, error) {
		r, err := wire.Recv()
		return ask{
			add: r.GetResourceNamesSubscribe(), del: r.GetResourceNamesUnsubscribe(), initial: r.GetInitialResourceVersions(),
			nonce: r.GetResponseNonce(), refusal: r.GetErrorDetail(),
		}, wrongType(r, err)
	})
}

func wrongType(r interface{ GetTypeUrl() string }, err error) error {
	if err == nil && r.GetTypeUrl() != "" && r.GetTypeUrl() != xdstype.SecretURL {
		return grpcstatus.Errorf(codes.InvalidArgument, "type %s: secrets alone are served here", r.GetTypeUrl())
	}
	return err
}

func (s *Secrets) newStream(delta bool) *stream {
	return &stream{
		secrets:  s,
		delta:    delta,
		follower: s.store.follow(),
		release:  map[string]func(){},
		sent:     map[string]string{},
		pending:  map[string]map[string]string{},
	}
}

// run answers until the client leaves.
func (c *stream) run(ctx context.Context, receive func() (ask, error)) error {
	defer c.end()
	asks, failed := socket.Incoming(ctx, receive)
	for {
		news := c.secrets.store.news()
		if err := c.catchUp(); err != nil {
			return err
		}
		select {
		case a := <-asks:
			if err := c.take(a); err != nil {
				return err
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

func (c *stream) end() {
	c.secrets.store.unfollow(c.follower)
	for _, release := range c.release {
		release()
	}
}

// take handles the two parts of a request: the answer to the last response, and the wanted names.
func (c *stream) take(a ask) error {
	c.answered(a)
	add, del := a.add, a.del
	if !c.delta {
		add = a.names
		for name := range c.release {
			if !slices.Contains(a.names, name) {
				del = append(del, name)
			}
		}
	}
	for _, name := range del {
		if release := c.release[name]; release != nil {
			release()
		}
		delete(c.release, name)
		delete(c.sent, name)
		c.secrets.store.update(c.follower, func() { delete(c.follower.wants, name) })
	}
	for _, name := range add {
		if c.release[name] != nil {
			continue
		}
		release, err := c.secrets.want(name)
		if err != nil {
			return grpcstatus.Error(codes.InvalidArgument, err.Error())
		}
		c.release[name] = release
		held, known := a.initial[name]
		if known {
			c.sent[name] = held
		}
		c.secrets.store.update(c.follower, func() {
			c.follower.wants[name] = true
			if known {
				c.follower.holds[name] = held
			}
		})
	}
	return nil
}

// answered handles an ACK or a NACK.
func (c *stream) answered(a ask) {
	had, ok := c.pending[a.nonce]
	if !ok {
		return
	}
	delete(c.pending, a.nonce)
	into := c.follower.holds
	if a.refusal != nil {
		into = c.follower.refused
		c.secrets.opts.Log.Error("the proxy refuses a secret; it keeps the one before", "names", slices.Sorted(maps.Keys(had)),
			"error", a.refusal.GetMessage())
	}
	c.secrets.store.update(c.follower, func() { maps.Copy(into, had) })
}

// catchUp sends what the client does not have. In the state-of-the-world protocol, each response holds all wanted names.
func (c *stream) catchUp() error {
	with, versions := map[string]resource{}, map[string]string{}
	changed := false
	for name := range c.release {
		r, ok := c.secrets.store.get(name)
		if !ok {
			continue
		}
		isNew := c.sent[name] != r.version
		changed = changed || isNew
		if isNew || !c.delta {
			with[name], versions[name] = r, r.version
		}
	}
	if !changed {
		return nil
	}
	c.nonce++
	nonce := strconv.FormatUint(c.nonce, 10)
	maps.Copy(c.sent, versions)
	c.pending[nonce] = versions
	if err := c.send(slices.Sorted(maps.Keys(with)), with, nonce); err != nil {
		return fmt.Errorf("send secrets: %w", err)
	}
	return nil
}
