package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/platform/pods/world"
	"fairway/test/rig"
)

// demo is a world on a stage.
type demo struct {
	*world.World
	s *stage
}

// show tries one thing, and fails the stage if the result is not as expected.
type show struct {
	name string
	run  func()
}

func (d demo) shows() []show {
	var page, ratings *kubelet.Pod
	return []show{
		{"the bookshop: four Deployments, injected", func() {
			begun := time.Now()
			page, ratings = d.Bookshop(d.s)
			fmt.Printf("  four pods, each with istio-init, pilot-agent and Envoy, are ready after %s\n", since(begun))
			rig.Eventually(d.s, func() error {
				a, err := world.Ask(d.Network.Host.DialContext, page.IP()+":9080", "productpage", nil)
				if err == nil && (a.Reviews == nil || a.Reviews.Ratings == nil) {
					err = fmt.Errorf("no ratings: %+v", a)
				}
				return err
			})
			fmt.Println("  productpage asked reviews, and reviews asked ratings, through their sidecars")
		}},
		{"a route, changed by the API", func() { d.routes(page) }},
		{"mutual TLS", func() { d.strict(page, ratings) }},
		{"an Ingress, its Secret replaced under load", d.ingress},
		{"a rollout under load", func() { d.rollout(page) }},
		{"the API server and the control plane are killed", func() { d.outage(page) }},
	}
}

const rules = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews, namespace: shop}
spec: {host: reviews, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews, subset: %s}}]}]}
`

// apply runs `kubectl apply -f -`, and prints its output.
func (d demo) apply(text string) {
	for line := range strings.Lines(d.Kubectl(d.s, text, "apply", "-f", "-")) {
		fmt.Print("  kubectl: ", line)
	}
}

func (d demo) routes(page *kubelet.Pod) {
	at := d.VIP(d.s, "reviews")
	for _, version := range []string{"v2", "v1"} {
		d.apply(fmt.Sprintf(rules, version))
		begun := time.Now()
		rig.Eventually(d.s, func() error {
			for range 5 { // the other one would be asked too
				a, err := world.Ask(page.DialContext, at, "reviews", nil)
				if err != nil || a.Version != version {
					return fmt.Errorf("reviews %s answers: %w", a.Version, err)
				}
			}
			return nil
		})
		fmt.Printf("  a VirtualService is applied; %s later all requests go to reviews %s\n", since(begun), version)
	}
}

func (d demo) strict(page, ratings *kubelet.Pod) {
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: stranger, namespace: shop, labels: {app: stranger, sidecar.istio.io/inject: "false"}}
spec: {containers: [{name: idle, image: bookinfo/service, command: [sleep, "86400"]}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: STRICT}}
`)
	stranger := d.Ready(d.s, "shop", "app", "stranger", 1)[0]
	rig.Eventually(d.s, func() error {
		if _, err := world.Ask(stranger.DialContext, ratings.IP()+":9080", "ratings", nil); err == nil {
			return fmt.Errorf("a pod without a sidecar is answered")
		}
		return nil
	})
	if _, err := world.Ask(page.DialContext, d.VIP(d.s, "ratings"), "ratings", nil); err != nil {
		d.s.Fatal(err)
	}
	fmt.Println("  STRICT: a pod without a sidecar is refused, productpage's is answered")
}

func (d demo) ingress() {
	first, second := world.NewCertificate(d.s), world.NewCertificate(d.s)
	d.Gateway(d.s)
	d.apply(first.Object)
	gateway := d.Ready(d.s, "edge", "istio", "ingressgateway", 1)[0]
	request := func(of ...world.Certificate) live.Request {
		config := &tls.Config{ServerName: "shop.example", RootCAs: x509.NewCertPool()}
		for _, c := range of {
			config.RootCAs.AppendCertsFromPEM(c.Roots)
		}
		return live.Request{To: gateway.IP() + ":443", Host: "shop.example", TLS: config, Dial: d.Network.Host.DialContext}
	}
	serves := func(c world.Certificate) {
		rig.Eventually(d.s, func() error {
			reply, err := live.Try(request(c))
			if err == nil && reply.Status != http.StatusOK {
				err = fmt.Errorf("%d %s", reply.Status, reply.Body)
			}
			return err
		})
	}
	serves(first)
	fmt.Println("  https://shop.example shows the page by the gateway")
	load := live.StartLoad(d.s, paced(live.HTTPClients("clients", 2, request(first, second))))
	d.apply(second.Object)
	begun := time.Now()
	serves(second)
	fmt.Printf("  another certificate in the Secret is shown after %s\n", since(begun))
	d.end(load)
}

// paced returns clients that pause between requests, so that the machine has time for other work.
func paced(c live.Clients) live.Clients {
	c.Pause = 20 * time.Millisecond
	return c
}

func (d demo) load(page *kubelet.Pod, service string) *live.Load {
	return live.StartLoad(d.s, paced(live.HTTPClients("productpage", 3, live.Request{
		To: d.VIP(d.s, service), Host: service, Dial: page.DialContext,
	})))
}

// end stops a load. One failed request fails the demo.
func (d demo) end(load *live.Load) {
	load.Await(d.s, 5)
	fmt.Printf("  %s\n", load)
	load.Check(d.s)
}

func (d demo) rollout(page *kubelet.Pod) {
	ratings := world.Workload{Name: "ratings", Version: "v1", Replicas: 3}
	d.Deploy(d.s, ratings)
	d.Ready(d.s, "shop", "app", "ratings", 3)
	load := d.load(page, "ratings")
	begun := time.Now()
	ratings.Build = "2"
	d.Deploy(d.s, ratings)
	rig.Eventually(d.s, func() error {
		for _, p := range d.Pods("shop", "app", "ratings") {
			if p.Annotation("build") != ratings.Build || !p.IsReady() {
				return fmt.Errorf("%s is of another build, or not ready", p.Name())
			}
		}
		return nil
	})
	fmt.Printf("  all pods of ratings are replaced after %s\n", since(begun))
	d.end(load)
}

func (d demo) outage(page *kubelet.Pod) {
	load := d.load(page, "reviews")
	d.StopServer()
	d.KillPlane()
	load.Await(d.s, 100)
	d.StartServer(d.s)
	d.StartPlane()
	d.routes(page)
	d.end(load)
}
