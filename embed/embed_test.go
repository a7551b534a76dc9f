package embed_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/embed"
	"fairway/test/ads"
	"fairway/test/plane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Example runs a control plane that knows one service, and asks it what is wrong with a rule.
func Example() {
	registry, err := embed.NewRegistry(embed.RegistryOptions{Name: "inventory", Protocol: "http"})
	if err != nil {
		fmt.Println(err)
		return
	}
	plane, err := embed.New(embed.Options{GRPCAddr: "127.0.0.1:0", Registries: []*embed.Registry{registry}, ShutdownWindow: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- plane.Run(ctx) }()
	<-plane.Synced()

	err = registry.PutInstance("shop", "reviews", embed.Instance{ID: "a", Addresses: []string{"10.0.0.1"}, Port: 8080})
	fmt.Println("put:", err)
	err = registry.PutInstance("shop", "ratings", embed.Instance{ID: "b"})
	fmt.Println("put:", err)
	fmt.Println("in force:", plane.Settled(ctx))
	fmt.Println("problems:", len(plane.Problems()))

	stop()
	fmt.Println("ended:", <-ended)
	// Output:
	// put: <nil>
	// put: services/shop/ratings is refused; error: Memory/inventory shop/ratings instances: instance "b" has no address; it is left out
	// in force: <nil>
	// problems: 0
	// ended: <nil>
}

// start runs a control plane until its test ends.
func start(t *testing.T, o embed.Options) *embed.ControlPlane {
	t.Helper()
	o.GRPCAddr, o.ShutdownWindow = "127.0.0.1:0", -1
	c, err := embed.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}))
	return c
}

func registry(t *testing.T, o embed.RegistryOptions) *embed.Registry {
	t.Helper()
	r, err := embed.NewRegistry(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestProxiesAreServed: what code puts is what a proxy is sent, of several registries as one, and changes follow.
func TestProxiesAreServed(t *testing.T) {
	east, west := registry(t, embed.RegistryOptions{Name: "east"}), registry(t, embed.RegistryOptions{Name: "west"})
	instance := func(ip string) embed.Instance {
		return embed.Instance{ID: ip, Addresses: []string{ip}, Ports: []embed.Port{{Name: "http", Number: 8080, Protocol: "http"}}}
	}
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(east.PutInstance("shop", "reviews", instance("10.0.0.1")), west.PutInstance("shop", "reviews", instance("10.0.0.2")))
	c := start(t, embed.Options{Registries: []*embed.Registry{east, west}, MeshConfig: "accessLogFile: /dev/stdout"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case <-c.Synced():
	case <-ctx.Done():
		t.Fatal("it does not sync")
	}
	must(c.Ready())

	come := make(chan struct{}, 1)
	proxy := ads.New(plane.Proxy{Name: "web"}.Node(), ads.NewReader(), func(ads.Event) {
		select {
		case come <- struct{}{}:
		default:
		}
	})
	proxy.Bodies = true
	must(proxy.Connect(ctx, c.GRPCAddr()))
	defer proxy.Disconnect()
	const cluster = "outbound|8080||reviews.shop.svc.cluster.local"
	holds := func(want ...string) {
		t.Helper()
		for {
			got, _ := proxy.Endpoints(cluster) // none yet
			if strings.Join(got, " ") == strings.Join(want, " ") {
				return
			}
			select {
			case <-come:
			case <-ctx.Done():
				t.Fatalf("the proxy has %q, want %q", got, want)
			}
		}
	}
	holds("10.0.0.1:8080", "10.0.0.2:8080")
	must(west.Replace(embed.Snapshot{Services: []embed.Service{}}), east.PutInstance("shop", "reviews", instance("10.0.0.3")))
	holds("10.0.0.1:8080", "10.0.0.3:8080")
	must(east.DeleteInstance("shop", "reviews", "10.0.0.1"), east.DeleteInstance("shop", "reviews", "nobody"))
	holds("10.0.0.3:8080")
	must(c.Settled(ctx))
}

// TestRefusals: what is wrong is told by what it is, and nothing of it counts.
func TestRefusals(t *testing.T) {
	r := registry(t, embed.RegistryOptions{})
	err := r.PutObject("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec: {hsts: [a]}\n")
	var refused *embed.Refused
	if !errors.As(err, &refused) || len(refused.Problems) == 0 || !strings.Contains(err.Error(), "spec.hsts") {
		t.Errorf("%v", err)
	}
	if err := r.DeleteObject("VirtualService", "default", "a"); err != nil {
		t.Errorf("a rule that is not there: %v", err)
	}
	if err := r.PutInstance("n", "a", embed.Instance{ID: "a", Addresses: []string{"10.0.0.1"}, Port: 1, TTL: time.Millisecond}); !errors.As(
		err, &refused) || !strings.Contains(err.Error(), "ttl") {
		t.Errorf("%v", err)
	}
	if _, err := embed.New(embed.Options{GRPCAddr: "127.0.0.1:0", MeshConfig: "acessLogFile: x"}); !errors.As(err, &refused) {
		t.Errorf("a mesh configuration with a mistake: %v", err)
	}
	if _, err := embed.New(embed.Options{}); err == nil {
		t.Error("a control plane that nobody can reach is taken")
	}
	if _, err := embed.NewRegistry(embed.RegistryOptions{Host: "x"}); err == nil || !strings.Contains(err.Error(), "host: ") {
		t.Errorf("a template without a name: %v", err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := embed.New(embed.Options{GRPCAddr: taken.Addr().String()}); err == nil {
		t.Error("an address that is taken is not an error")
	}
}
