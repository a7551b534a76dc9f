package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// world is the running mesh.
type world struct {
	root     string // the checkout
	bin      string // folder of pilot-discovery and pilot-agent
	service  string // the bookshop's program
	envoy    string
	consul   string // its binary, if the bookshop is registered in it; empty: the rules say where services run
	dir      string // all that this run writes is below it
	ports    ports
	children []*child // in order of start
	took     time.Duration
}

// start brings everything up and returns once a request went through all of it.
func (w *world) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the mesh is not up after %s", startTimeout))
	defer cancel()
	began := time.Now()
	if w.ports, err = pickPorts(); err != nil {
		return err
	}
	if err := w.ports.copyRules(filepath.Join(w.root, "examples", "bookinfo", "rules"), w.rules()); err != nil {
		return err
	}
	if w.consul != "" {
		if err := w.ofConsul(); err != nil {
			return err
		}
	}
	if err := w.inviteAll(ctx); err != nil {
		return err
	}
	first := w.services()
	if w.consul != "" {
		first = append(first, w.registry())
	}
	for _, c := range append(first, w.discovery()) {
		if err := w.run(c); err != nil {
			return err
		}
	}
	if err := w.await(ctx, "pilot-discovery", w.http(w.ports.http, "/ready")); err != nil {
		return err
	}
	for _, c := range w.proxies() {
		if err := w.run(c); err != nil {
			return err
		}
	}
	for i, c := range w.proxies() {
		if err := w.await(ctx, c.name, w.http(w.ports.admin[i], "/ready")); err != nil {
			return err
		}
	}
	if err := w.await(ctx, "a page through the gateway", w.http(w.ports.gateway, "/productpage")); err != nil {
		return err
	}
	w.took = time.Since(began)
	return nil
}

// stop ends everything, last started first.
func (w *world) stop() {
	for i := len(w.children) - 1; i >= 0; i-- {
		w.children[i].stop()
	}
}

func (w *world) run(c command) error {
	ch, err := startChild(w.dir, c)
	if err == nil {
		w.children = append(w.children, ch)
	}
	return err
}

func (w *world) rules() string { return filepath.Join(w.dir, "rules") }

func (w *world) http(port int, path string) string { return "http://" + at(local, port) + path }

func (w *world) discovery() command {
	args := []string{
		"discovery", "--configDir", w.rules(), "--meshConfig", filepath.Join(w.root, "examples", "bookinfo", "mesh.yaml"),
		"--grpcAddr", at(local, w.ports.grpc), "--httpAddr", at(local, w.ports.http), "--monitoringAddr", at(local, w.ports.monitoring),
		"--secureGRPCAddr", at(local, w.ports.secure), "--caStateDir", w.authority(), "--httpsAddr", "", "--shutdownDuration", "1s",
	}
	if w.consul != "" {
		args = append(args, "--registriesConfig", filepath.Join(w.dir, "registries.yaml"))
	}
	return command{name: "pilot-discovery", path: filepath.Join(w.bin, "pilot-discovery"), args: args}
}

// services returns the bookshop's programs: those with a sidecar listen on 127.0.0.1 and are reached through it.
func (w *world) services() []command {
	p := w.ports
	service := func(name, role, version, listen, upstream, fail string) command {
		return command{name: name, path: w.service, args: []string{
			"--role", role, "--version", version, "--listen", listen, "--upstream", upstream, "--fail", fail,
		}}
	}
	return []command{
		service("productpage", "productpage", "v1", at(local, p.productpage), at(productpageOut, p.service), "0/1"),
		service("reviews-v1", "reviews", "v1", at(reviewsV1, p.service), "", "0/1"),
		service("reviews-v2", "reviews", "v2", at(local, p.reviewsV2), at(reviewsV2Out, p.service), "0/1"),
		service("reviews-v3", "reviews", "v3", at(reviewsV3, p.service), at(ratingsSteady, p.service), "0/1"),
		service("ratings-steady", "ratings", "steady", at(ratingsSteady, p.service), "", "0/1"),
		service("ratings-flaky", "ratings", "flaky", at(ratingsFlaky, p.service), "", "2/3"),
	}
}

// proxies returns the Envoys, each through pilot-agent. Their certificates live for seconds, so that the demo shows how they are
// replaced; replaced Envoys do not stay long either.
func (w *world) proxies() []command {
	proxy := func(i int, kind, labels string) command {
		name := proxyNames[i]
		return command{
			name: name,
			path: filepath.Join(w.bin, "pilot-agent"),
			args: []string{
				"proxy",
				kind,
				"--envoy",
				w.envoy,
				"--discoveryAddress",
				at(local, w.ports.secure),
				"--configPath",
				filepath.Join(w.dir, "proxies", name),
				"--adminPort",
				fmt.Sprint(w.ports.admin[i]),
				"--statusPort",
				fmt.Sprint(w.ports.status[i]),
				"--readyPort",
				"0",
				"--prometheusPort",
				"0",
				"--concurrency",
				"1",
				"--drainDuration",
				"2s",
				"--longestRequest",
				"1s",
				"--parentShutdownDuration",
				"4s",
			},
			env: []string{
				"CA_ADDR=" + at(local, w.ports.secure),
				"CA_ROOT_CA=" + filepath.Join(w.authority(), "root-cert.pem"),
				"JWT_TOKEN_PATH=" + w.token(name),
				"SERVICE_ACCOUNT=" + name,
				"SECRET_TTL=" + certificateLife.String(),
				"MINIMUM_DRAIN_DURATION=0s",
				"POD_NAME=" + name,
				"POD_NAMESPACE=default",
				"INSTANCE_IP=" + proxyAddresses[i],
				"ISTIO_META_INTERCEPTION_MODE=NONE",
				"ISTIO_METAJSON_LABELS=" + labels,
			},
		}
	}
	return []command{
		proxy(0, "sidecar", `{"app":"productpage","version":"v1"}`),
		proxy(1, "sidecar", `{"app":"reviews","version":"v2"}`),
		proxy(2, "router", `{"istio":"ingressgateway"}`),
	}
}

// await requests url until it answers 200, and fails early if a child has ended meanwhile.
func (w *world) await(ctx context.Context, what, url string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last := "no answer"
	for {
		body, status, err := fetch(ctx, url, nil)
		switch {
		case err == nil && status == http.StatusOK:
			return nil
		case err == nil:
			last = fmt.Sprintf("status %d: %.300s", status, strings.TrimSpace(string(body)))
		case ctx.Err() == nil:
			last = err.Error()
		}
		for _, c := range w.children {
			if err := c.ended(); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s at %s: %w; last: %s", what, url, context.Cause(ctx), last)
		}
	}
}

// fetch gets url with some headers.
func fetch(ctx context.Context, url string, headers map[string]string) (body []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, err
	}
	for k, v := range headers {
		request.Header.Set(k, v)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return body, response.StatusCode, err
}
