package scenario

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/internal/source/memory"
	"fairway/test/ads"
)

// cost is the cost of one change: rows recomputed, and resources and bytes that a client received. All three are exact, whatever the
// machine does meanwhile.
type cost struct{ Rows, Resources, Bytes int }

// TestOneChangeCostsTheSameInAnyMesh makes the same changes in a mesh of 100 services and in one of 2,000, and expects
// the same rows recomputed and the same bytes sent.
func TestOneChangeCostsTheSameInAnyMesh(t *testing.T) {
	if testing.Short() {
		t.Skip("meshes of thousands of services are not short")
	}
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	small, large := costs(t, decoder, 100), costs(t, decoder, 2000)
	if diff := cmp.Diff(small, large); diff != "" {
		t.Errorf("costs in a mesh of 100 services (-) and of 2,000 (+) differ:\n%s", diff)
	}
	if c := small["machine fails"]; c.Rows > 10 || c.Resources != 1 || c.Bytes > 300 {
		t.Errorf("a machine that fails is one load assignment less long: %+v", c)
	}
	for change, c := range small {
		if c.Rows == 0 || c.Rows > 40 || c.Bytes == 0 || c.Bytes > 4500 {
			t.Errorf("%s: %+v", change, c)
		}
	}
}

func costs(t *testing.T, decoder *config.Decoder, services int) map[string]cost {
	t.Helper()
	object := func(text string) *config.Object {
		o, problems := decoder.Decode(config.Document{File: "flat.yaml", Line: 1, Text: []byte(text)})
		if o == nil {
			t.Fatalf("%v\n%s", problems, text)
		}
		return o
	}
	src := memory.New("memory")
	var objects []*config.Object
	for i := 1000; i < 1000+services; i++ { // names of one length, so that bytes can be compared
		objects = append(objects, object(flatService(i, 1)))
		if i%5 == 0 {
			objects = append(objects, object(flatRoute(i, 90)), object(flatRule(i, 100)))
		}
	}
	objects = append(objects, object(flatSelector), object(flatMachine))
	src.Set(objects...)
	opts := app.DefaultOptions()
	opts.GRPCAddr, opts.HTTPAddr, opts.MonitorAddr, opts.MeshConfig, opts.Networks, opts.Shutdown = "127.0.0.1:0", "", "", "",
		"", time.Millisecond
	d, err := app.NewDiscovery(opts, src)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- d.Run(ctx) }()
	c := &client{more: make(chan struct{}, 1)}
	c.Client = ads.New(node("web", map[string]string{"ip": "10.9.9.9"}), ads.NewReader(), c.take)
	defer func() {
		c.Disconnect()
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}()
	wait, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	settle := func() {
		t.Helper()
		if err := d.Settled(wait); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Connect(ctx, d.GRPCAddr()); err != nil {
		t.Fatal(err)
	}
	if err := c.await(wait); err != nil {
		t.Fatalf("%v; the client holds %s", err, c.State())
	}
	if err := d.Connected(wait, c.Node.Id, c.Asked()); err != nil {
		t.Fatal(err)
	}
	settle()

	out := map[string]cost{}
	change := func(name string, do func()) {
		c.TakeTotals()
		do()
		settle()
		if err := c.await(wait); err != nil { // a new cluster's load assignment is asked for
			t.Fatal(err)
		}
		settle()
		got := c.TakeTotals()
		out[name] = cost{d.LastTurn().Recomputed, got.Resources + got.Removed, got.Bytes}
	}
	change("route", func() { src.Set(object(flatRoute(1000, 80))) })
	change("rule", func() { src.Set(object(flatRule(1000, 101))) })
	change("endpoint", func() { src.Set(object(flatService(1001, 2))) })
	change("service added", func() { src.Set(object(flatService(9000, 1))) })
	change("service removed", func() { src.Delete(config.Key{Kind: "ServiceEntry", Namespace: "default", Name: "svc-9000"}) })
	change("machine fails", func() {
		before := d.LastTurn().Version
		if err := c.Report("type.googleapis.com/istio.v1.HealthInformation", "no answer"); err != nil {
			t.Fatal(err)
		}
		if err := d.AfterTurn(wait, before); err != nil {
			t.Fatal(err)
		}
	})
	return out
}

const (
	flatSelector = `{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"name":"machines","namespace":"default"},"spec":{
		"hosts":["machines.default.svc.cluster.local"],"addresses":["10.99.0.1"],"location":"MESH_INTERNAL","resolution":"STATIC",
		"ports":[{"number":80,"name":"http","protocol":"HTTP"}],"workloadSelector":{"labels":{"app":"machines"}}}}`
	// flatMachine is where the client is.
	flatMachine = `{"apiVersion":"networking.istio.io/v1","kind":"WorkloadEntry","metadata":{"name":"machine","namespace":"default"},"spec":{"address":"10.9.9.9","labels":{"app":"machines"}}}`
)

func flatService(i, last int) string {
	return fmt.Sprintf(
		`{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"name":"svc-%[1]d","namespace":"default"},"spec":{
		"hosts":["svc-%[1]d.default.svc.cluster.local"],"addresses":["10.%[2]d.%[3]d.1"],"location":"MESH_INTERNAL","resolution":"STATIC",
		"ports":[{"number":80,"name":"http","protocol":"HTTP"}],
		"endpoints":[{"address":"10.200.1.1","labels":{"version":"v1"}},{"address":"10.200.1.%[4]d","labels":{"version":"v2"}}]}}`,
		i,
		100+i/100,
		100+i%100,
		10+last,
	)
}

func flatRoute(i, weight int) string {
	return fmt.Sprintf(
		`{"apiVersion":"networking.istio.io/v1","kind":"VirtualService","metadata":{"name":"svc-%[1]d","namespace":"default"},"spec":{
		"hosts":["svc-%[1]d"],"http":[{"route":[{"destination":{"host":"svc-%[1]d","subset":"v1"},"weight":%[2]d},{"destination":{"host":"svc-%[1]d","subset":"v2"},"weight":%[3]d}]}]}}`,
		i,
		weight,
		100-weight,
	)
}

func flatRule(i, connections int) string {
	return fmt.Sprintf(
		`{"apiVersion":"networking.istio.io/v1","kind":"DestinationRule","metadata":{"name":"svc-%[1]d","namespace":"default"},"spec":{
		"host":"svc-%[1]d","trafficPolicy":{"connectionPool":{"tcp":{"maxConnections":%[2]d}}},"subsets":[{"name":"v1","labels":{"version":"v1"}},{"name":"v2","labels":{"version":"v2"}}]}}`,
		i,
		connections,
	)
}
