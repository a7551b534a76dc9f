package registry_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/config"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/platform/registry/mcpserver"
	"fairway/test/rig"
)

const (
	mcpEntries   = "istio/networking/v1alpha3/serviceentries"
	mcpSynthetic = "istio/networking/v1alpha3/synthetic/serviceentries"
)

func mcpEntry(t *testing.T, name, version, host, address string) *mcp.Resource {
	t.Helper()
	body, err := anypb.New(&networking.ServiceEntry{
		Hosts: []string{host}, Resolution: networking.ServiceEntry_STATIC, Endpoints: []*networking.WorkloadEntry{{Address: address}},
		Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &mcp.Resource{Metadata: &mcp.Metadata{Name: name, Version: version}, Body: body}
}

// TestMCPSink: a control plane is the sink of a source that is written from the protocol's definition alone. Whole answers replace,
// incremental ones add and remove; invalid resources are refused with the reason; after a break the sink lists the resources that it holds.
func TestMCPSink(t *testing.T) {
	protocol := mcpserver.New(t)
	asked := make(chan mcpserver.Request, 256)
	more := make(chan mcpserver.Answer)
	address := mcpserver.Serve(t, func(s grpc.ServerStream) error {
		requests := make(chan mcpserver.Request)
		failed := make(chan error, 1)
		go func() {
			for {
				r, err := protocol.Receive(s)
				if err != nil {
					failed <- err
					return
				}
				select {
				case requests <- r:
				case <-s.Context().Done():
					return
				}
			}
		}()
		for {
			select {
			case r := <-requests:
				if r.Collection == mcpEntries || r.Collection == mcpSynthetic {
					asked <- r
				}
				if r.Nonce != "" {
					continue
				}
				a := mcpserver.Answer{Collection: r.Collection, Nonce: "first", Incremental: len(r.Initial) > 0}
				if len(r.Initial) == 0 && r.Collection == mcpEntries {
					a.Resources = []*mcp.Resource{mcpEntry(t, "shop/reviews", "1", "reviews.shop.svc.cluster.local", "10.0.0.1")}
				}
				if len(r.Initial) == 0 && r.Collection == mcpSynthetic {
					a.Resources = []*mcp.Resource{mcpEntry(t, "shop/cart", "1", "cart.shop.svc.cluster.local", "10.0.1.1")}
				}
				if err := protocol.Send(s, a); err != nil {
					return err
				}
			case a := <-more:
				if a.Collection == "" {
					return errors.New("it goes away")
				}
				if err := protocol.Send(s, a); err != nil {
					return err
				}
			case err := <-failed:
				return err
			}
		}
	})
	// next is the next request about a collection.
	next := func(collection string) mcpserver.Request {
		for {
			if r := <-asked; r.Collection == collection {
				return r
			}
		}
	}
	opts := plane.Options()
	opts.MeshConfig = mcpMesh(t, "configSources: [{address: 'mcp://"+address+"'}]")
	p := plane.Start(t, opts)
	client := p.Connect(t, plane.Proxy{Name: "web-1", Secrets: true})
	const carts = "outbound|80||cart.shop.svc.cluster.local"
	if err := errors.Join(mcpServed(client, mcpReviews, "10.0.0.1:80"), mcpServed(client, carts, "10.0.1.1:80")); err != nil {
		t.Error(err)
	}
	if r := next(mcpEntries); !r.Incremental || r.Sink == "" || len(r.Initial) != 0 {
		t.Errorf("the first request is %+v", r)
	}
	if r := next(mcpEntries); r.Nonce != "first" || r.Error != "" {
		t.Errorf("what is taken is acknowledged by %+v", r)
	}
	bad := mcpEntry(t, "shop/bad", "1", "*", "10.0.0.9")
	more <- mcpserver.Answer{
		Collection: mcpEntries, Nonce: "second", Incremental: true,
		Resources: []*mcp.Resource{bad, mcpEntry(t, "shop/reviews", "2", "reviews.shop.svc.cluster.local", "10.0.0.2")},
	}
	if r := next(mcpEntries); r.Nonce != "second" || !strings.Contains(r.Error, "shop/bad") {
		t.Errorf("what is not valid is refused by %+v", r)
	}
	rig.Eventually(t, func() error { return mcpServed(client, mcpReviews, "10.0.0.2:80") })
	more <- mcpserver.Answer{Collection: mcpSynthetic, Nonce: "third", Incremental: true, Removed: []string{"shop/cart"}}
	rig.Eventually(t, func() error {
		if slices.Contains(client.Names(ads.ClusterType), carts) {
			return errors.New("what was removed is still there")
		}
		return nil
	})
	more <- mcpserver.Answer{}
	for {
		if r := next(mcpEntries); r.Nonce == "" {
			if len(r.Initial) != 1 || r.Initial["shop/reviews"] != "2" {
				t.Errorf("after a break the sink says that it holds %v", r.Initial)
			}
			break
		}
	}
	rig.Eventually(t, func() error {
		if behind := p.Discovery.Behind(); len(behind) > 0 {
			return fmt.Errorf("%v", behind)
		}
		return nil
	})
	if err := mcpServed(client, mcpReviews, "10.0.0.2:80"); err != nil {
		t.Errorf("after a break: %v", err)
	}
}

// TestMCPSource: a control plane is the source of a sink that is written from the protocol's definition alone, incremental or not.
func TestMCPSource(t *testing.T) {
	protocol := mcpserver.New(t)
	opts := plane.Options()
	opts.Grace = time.Millisecond // nothing waits for what refers to it
	p := plane.Start(t, opts)
	p.Apply(t, "rules.yaml", mcpRules)
	p.Source.Apply(mcpCart("10.0.1.1"))
	p.Settle(t)
	conn, err := grpc.NewClient(p.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ask := func(s grpc.ClientStream, r mcpserver.Request) mcpserver.Answer {
		t.Helper()
		if err := protocol.Ask(s, r); err != nil {
			t.Fatal(err)
		}
		a, err := protocol.Next(s)
		if err == nil {
			err = protocol.Ask(s, mcpserver.Request{Collection: r.Collection, Nonce: a.Nonce})
		}
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	names := func(a mcpserver.Answer) (out []string) {
		for _, r := range a.Resources {
			out = append(out, r.Metadata.Name)
		}
		return out
	}
	s := mcpserver.Open(t, conn)
	first := ask(s, mcpserver.Request{Collection: mcpEntries, Incremental: true})
	if !first.Incremental || !slices.Equal(names(first), []string{"shop/reviews"}) {
		t.Errorf("%s: %+v", mcpEntries, first)
	}
	if a := ask(s, mcpserver.Request{Collection: mcpSynthetic}); a.Incremental ||
		!slices.Equal(names(a), []string{"shop/synthetic-cart.shop.svc.cluster.local"}) {
		t.Errorf("%s: %+v", mcpSynthetic, a)
	}
	again := mcpserver.Open(t, conn)
	held := map[string]string{"shop/reviews": first.Resources[0].Metadata.Version, "shop/gone": "1"}
	a := ask(again, mcpserver.Request{Collection: mcpEntries, Incremental: true, Initial: held})
	if len(a.Resources) != 0 || !slices.Equal(a.Removed, []string{"shop/gone"}) {
		t.Errorf("a sink that holds one is told %v, and that %v is gone", names(a), a.Removed)
	}
	p.Source.Delete(config.Key{Kind: config.ServiceEntry, Namespace: "shop", Name: "reviews"})
	if a, err := protocol.Next(s); err != nil || !a.Incremental || len(a.Resources) != 0 ||
		!slices.Equal(a.Removed, []string{"shop/reviews"}) {
		t.Errorf("that one is gone is told by %+v, %v", a, err)
	}
}
