package config_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"fairway/internal/config"
)

// loadText is a mesh of the size the cold-start budget is for: 5,000 services, a fifth of them with a VirtualService and a DestinationRule.
func loadText() []config.Document {
	var docs []config.Document
	add := func(format string, args ...any) {
		docs = append(docs, config.Document{File: "load.yaml", Line: 1, Text: fmt.Appendf(nil, format, args...)})
	}
	for i := range 5000 {
		add(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata:
  name: svc-%[1]d
  namespace: ns-%[2]d
  labels:
    app: svc-%[1]d
spec:
  hosts:
  - svc-%[1]d.ns-%[2]d.svc.cluster.local
  addresses:
  - 10.%[3]d.%[4]d.1
  ports:
  - number: 80
    name: http
    protocol: HTTP
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints:
  - address: 10.1.%[4]d.1
    ports:
      http: 8080
    labels:
      app: svc-%[1]d
      version: v1
  - address: 10.1.%[4]d.2
    labels: {app: svc-%[1]d, version: v2}
  - address: 10.1.%[4]d.3
    labels: {app: svc-%[1]d, version: v1}
  - address: 10.1.%[4]d.4
    labels: {app: svc-%[1]d, version: v2}
  - address: 10.1.%[4]d.5
    labels: {app: svc-%[1]d, version: v1}
`, i, i%50, i/250, i%250)
	}
	for i := range 1000 {
		add(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: svc-%[1]d
  namespace: ns-%[2]d
spec:
  hosts:
  - svc-%[1]d.ns-%[2]d.svc.cluster.local
  http:
  - match:
    - headers:
        x-version:
          exact: v2
    route:
    - destination:
        host: svc-%[1]d.ns-%[2]d.svc.cluster.local
        subset: v2
  - route:
    - destination:
        host: svc-%[1]d.ns-%[2]d.svc.cluster.local
        subset: v1
      weight: 90
    - destination:
        host: svc-%[1]d.ns-%[2]d.svc.cluster.local
        subset: v2
      weight: 10
    timeout: 5s
    retries:
      attempts: 2
`, i, i%50)
		add(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  name: svc-%[1]d
  namespace: ns-%[2]d
spec:
  host: svc-%[1]d.ns-%[2]d.svc.cluster.local
  trafficPolicy:
    connectionPool:
      tcp:
        maxConnections: 100
  subsets:
  - name: v1
    labels:
      version: v1
  - name: v2
    labels:
      version: v2
`, i, i%50)
	}
	for i := range 250 {
		add(`apiVersion: networking.istio.io/v1
kind: Sidecar
metadata:
  name: default
  namespace: ns-%d
spec:
  egress:
  - hosts:
    - "./*"
    - "istio-system/*"
`, i)
	}
	for i := range 2 {
		add(`apiVersion: networking.istio.io/v1
kind: Gateway
metadata:
  name: gw-%d
  namespace: istio-system
spec:
  selector:
    istio: ingressgateway
  servers:
  - port: {number: 80, name: http, protocol: HTTP}
    hosts: ["*"]
`, i)
	}
	return docs
}

func decodeAll(tb testing.TB, d *config.Decoder, docs []config.Document) {
	var wg sync.WaitGroup
	n := runtime.GOMAXPROCS(0)
	for w := range n {
		wg.Go(func() {
			for i := w; i < len(docs); i += n {
				o, problems := d.Decode(docs[i])
				if o == nil || len(problems) > 0 {
					tb.Errorf("%s\n%v", docs[i].Text, problems)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkColdStart is 7,252 objects through a new decoder, on all cores: schemas read, rules compiled, everything decoded.
func BenchmarkColdStart(b *testing.B) {
	docs := loadText()
	b.ReportAllocs()
	for b.Loop() {
		d, err := config.NewDecoder(config.Options{})
		if err != nil {
			b.Fatal(err)
		}
		decodeAll(b, d, docs)
	}
}

// BenchmarkDecode is one object of a kind through a warm decoder.
func BenchmarkDecode(b *testing.B) {
	docs := loadText()
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, at := range []struct {
		name string
		doc  int
	}{{"ServiceEntry", 0}, {"VirtualService", 5000}, {"DestinationRule", 5001}, {"Sidecar", 7000}, {"Gateway", 7250}} {
		b.Run(at.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if o, _ := d.Decode(docs[at.doc]); o == nil {
					b.Fatal("refused")
				}
			}
		})
	}
}
