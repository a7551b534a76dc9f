package histories

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/grpc"
	mcp "istio.io/api/mcp/v1alpha1"

	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/config"
	"fairway/test/platform/registry/mcpserver"
)

// galley is a source of the Mesh Configuration Protocol that holds objects: each of its sinks is told all of a collection at first, and
// what changes then, every other time as a whole.
type galley struct {
	protocol    mcpserver.Protocol
	address     string
	collections map[config.Kind]string

	mu      sync.Mutex
	held    map[string]map[string]*mcp.Resource // by collection and name
	version int
	sinks   map[*sink]bool
}

// sink is one that is told.
type sink struct {
	stream grpc.ServerStream
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
	g.address = mcpserver.Serve(t, g.serve)
	return g
}

func (g *galley) serve(stream grpc.ServerStream) error {
	s := &sink{stream: stream, asked: map[string]bool{}}
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

// set has an object be there; nil: be gone. Sinks that cannot be told any more end by themselves.
func (g *galley) set(key config.Key, o *config.Object) error {
	collection, name := g.collections[key.Kind], key.Namespace+"/"+key.Name
	g.mu.Lock()
	defer g.mu.Unlock()
	g.version++
	change := mcpserver.Answer{Collection: collection, Incremental: true}
	if o == nil {
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
