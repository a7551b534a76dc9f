package histories

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	mcp "istio.io/api/mcp/v1alpha1"

	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/config"
	"fairway/test/platform/registry/mcpserver"
	"fairway/test/rig"
)

// galley is a source of the Mesh Configuration Protocol that holds objects. Each of its sinks gets a whole collection first and then its
// changes; every second change is the whole collection again. Sinks connect to it, or it to them.
type galley struct {
	protocol    mcpserver.Protocol
	address     string
	collections map[config.Kind]string

	mu      sync.Mutex
	held    map[string]map[string]*mcp.Resource // by collection and name
	version int
	sinks   map[*sink]bool
	away    bool // it makes no connections
}

// sink gets changes until end is called.
type sink struct {
	end    func()
	stream mcpserver.Messages
	asked  map[string]bool
	nonces int
}

func newGalley(t *testing.T) *galley {
	g := &galley{
		protocol: mcpserver.New(t), collections: map[config.Kind]string{},
		held: map[string]map[string]*mcp.Resource{}, sinks: map[*sink]bool{},
	}
	for _, api := range config.APIs() {
		g.collections[api.Kind] = collectionOf(api)
	}
	g.address = mcpserver.Serve(t, func(stream grpc.ServerStream) error { return g.serve(stream, func() {}) })
	return g
}

// push connects to a control plane that is about to start, again and again while the control plane runs, and serves it.
func (g *galley) push(t *testing.T, address string) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(
		grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, Multiplier: 1.5}}))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer conn.Close()
		pause := time.NewTicker(25 * time.Millisecond)
		defer pause.Stop()
		there := false
		for late := time.After(rig.Bound); t.Context().Err() == nil; <-pause.C {
			if g.isAway() {
				continue
			}
			ctx, end := context.WithCancel(t.Context())
			stream, err := g.protocol.Pushing(ctx, conn)
			if err == nil {
				err = g.serve(stream, end)
			}
			end()
			gone := strings.Contains(status.Convert(err).Message(), "connection refused")
			if gone && there {
				return
			}
			there = there || !gone
			select {
			case <-late:
				if !there {
					return
				}
			default:
			}
		}
	}()
}

func (g *galley) isAway() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.away
}

// leave ends all streams, and makes galley stop connecting or connect again.
func (g *galley) leave(away bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = away
	for s := range g.sinks {
		s.end()
	}
}

func (g *galley) serve(stream mcpserver.Messages, end func()) error {
	s := &sink{end: end, stream: stream, asked: map[string]bool{}}
	g.mu.Lock()
	g.sinks[s] = true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.sinks, s)
	}()
	for {
		r, err := g.protocol.Receive(stream)
		if err != nil {
			return err
		}
		if r.Nonce != "" {
			continue
		}
		g.mu.Lock()
		s.asked[r.Collection] = true
		err = g.tell(s, g.whole(r.Collection))
		g.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// whole is all there is of a collection. mu is held.
func (g *galley) whole(collection string) mcpserver.Answer {
	out := mcpserver.Answer{Collection: collection}
	for _, name := range slices.Sorted(maps.Keys(g.held[collection])) {
		out.Resources = append(out.Resources, g.held[collection][name])
	}
	return out
}

// tell sends an answer. mu is held.
func (g *galley) tell(s *sink, a mcpserver.Answer) error {
	s.nonces++
	a.Nonce = strconv.Itoa(s.nonces)
	return g.protocol.Send(s.stream, a)
}

// set adds an object or removes it. Sinks that cannot be reached any more end by themselves.
func (g *galley) set(key config.Key, o *config.Object, there bool) error {
	collection, name := g.collections[key.Kind], key.Namespace+"/"+key.Name
	g.mu.Lock()
	defer g.mu.Unlock()
	g.version++
	change := mcpserver.Answer{Collection: collection, Incremental: true}
	if !there {
		delete(g.held[collection], name)
		change.Removed = []string{name}
	} else {
		body, err := anypb.New(o.Spec)
		if err != nil {
			return err
		}
		r := &mcp.Resource{Body: body, Metadata: &mcp.Metadata{
			Name: name, Version: strconv.Itoa(g.version), Labels: o.Labels.Map(), Annotations: o.Annotations, CreateTime: created(o),
		}}
		if g.held[collection] == nil {
			g.held[collection] = map[string]*mcp.Resource{}
		}
		g.held[collection][name] = r
		change.Resources = []*mcp.Resource{r}
	}
	if g.version%2 == 0 {
		change = g.whole(collection)
	}
	for s := range g.sinks {
		if s.asked[collection] {
			_ = g.tell(s, change)
		}
	}
	return nil
}
