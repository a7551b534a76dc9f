package identity

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"fairway/internal/agent/secrets"
	"fairway/internal/app"
	"fairway/internal/identity"
	"fairway/test/envoy/live"
	"fairway/test/plane"
	"fairway/test/rig"
)

var (
	front = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "front"}
	back  = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "back"}
	other = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "other"}
)

// world is a control plane with an authority, and two proxies.
type world struct {
	*live.Mesh
	options app.Options
	plane   *plane.Plane
	dir     string
	front   *proxy // its clients speak plaintext to it
	back    *proxy // its peers speak mutual TLS to it
}

// proxy is an Envoy with an agent's secrets.
type proxy struct {
	id      identity.ID
	secrets *secrets.Secrets
	stop    func() // ends secrets
	admin   string
}

// newWorld starts everything; backends are back's workload.
func newWorld(t *testing.T) *world {
	w := &world{Mesh: live.Start(t, live.Options{}), dir: t.TempDir(), options: plane.Options()}
	w.options.SecureAddr = w.Addr("istiod", 15012)
	w.options.Identity.CA.Plugged, w.options.Identity.CA.State = "", filepath.Join(w.dir, "ca")
	w.plane = plane.Start(t, w.options)
	w.Backend(t, "app")
	w.TCPBackend(t, "app", 9000)
	w.back = w.start(t, back, backConfig)
	w.front = w.start(t, front, frontConfig)
	return w
}

// start starts an agent's secrets and an Envoy that takes them.
func (w *world) start(t *testing.T, id identity.ID, config string) *proxy {
	t.Helper()
	p := &proxy{id: id, admin: "http://" + w.Addr(id.ServiceAccount+"-admin", 15000)}
	w.startAgent(t, p)
	var text bytes.Buffer
	err := template.Must(template.New("").Parse(envoyConfig+config)).Execute(&text, map[string]any{
		"ID":      id.ServiceAccount,
		"Admin":   w.IP(id.ServiceAccount + "-admin"),
		"SDS":     w.socket(p),
		"IP":      w.IP(id.ServiceAccount),
		"Back":    w.IP("back"),
		"App":     w.IP("app"),
		"FrontID": front.String(),
		"BackID":  back.String(),
		"OtherID": other.String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	runEnvoy(t, w.file(t, p, "envoy.yaml", text.Bytes()), filepath.Join(w.dir, id.ServiceAccount+".log"))
	rig.Eventually(t, func() error { return ready(p.admin) })
	p.settle(t)
	return p
}

func (w *world) socket(p *proxy) string { return filepath.Join(w.dir, p.id.ServiceAccount+".sock") }

func (w *world) file(t *testing.T, p *proxy, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(w.dir, p.id.ServiceAccount+"-"+name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startAgent starts an agent that knows nothing of one before it: it has a token of its own, and what the control plane is known by now.
func (w *world) startAgent(t *testing.T, p *proxy) {
	t.Helper()
	token, err := w.plane.Discovery.JoinTokens().Create(p.id, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	p.secrets, err = secrets.New(secrets.Options{
		Socket: w.socket(p), ID: p.id, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Authority: &secrets.Authority{
			Addresses: []string{w.options.SecureAddr},
			Token:     w.file(t, p, "token", []byte(token)),
			Roots:     w.file(t, p, "root.pem", w.plane.Discovery.Authority().Roots()),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.stop = runSecrets(t, p.secrets)
}

// replaceAgent stops a proxy's agent, starts another one, and waits until the Envoy, which goes on meanwhile, has come
// back for its secrets.
func (w *world) replaceAgent(t *testing.T, p *proxy) {
	t.Helper()
	p.stop()
	w.startAgent(t, p)
	rig.Eventually(t, func() error {
		for _, c := range p.secrets.Status() {
			if c.Streams == 0 || c.Current != c.Streams {
				return fmt.Errorf("%s: %+v", p.id, c)
			}
		}
		return p.secrets.Ready()
	})
}

// runSecrets runs them until the returned function is called or the test ends.
func runSecrets(t *testing.T, s *secrets.Secrets) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	up, over := make(chan struct{}), make(chan error, 1)
	go func() { over <- s.Run(ctx, func() { close(up) }) }()
	select {
	case <-up:
	case err := <-over:
		cancel()
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func runEnvoy(t *testing.T, config, log string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(live.NeedEnvoy(t), "-c", config, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning",
		"--log-path", log)
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("%s\n%s", &stderr, text[max(0, len(text)-4000):])
		}
	})
}

func ready(admin string) error {
	resp, err := http.Get(admin + "/ready")
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", admin, resp.Status)
	}
	return nil
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
	t.Cleanup(cancel)
	return ctx
}

// settle waits until the Envoy has what its agent has.
func (p *proxy) settle(t *testing.T) {
	t.Helper()
	if err := p.secrets.Settled(bounded(t)); err != nil {
		t.Fatalf("%s: %v: %+v", p.id, err, p.secrets.Status())
	}
}

// renew gives the proxy another certificate and waits until it is in force.
func (p *proxy) renew(t *testing.T) {
	t.Helper()
	if err := p.secrets.Renew(bounded(t)); err != nil {
		t.Fatalf("%s: %v", p.id, err)
	}
	p.settle(t)
}

// both renews both at the same time.
func (w *world) both(t *testing.T) {
	t.Helper()
	var g sync.WaitGroup
	errs := make([]error, 2)
	for i, p := range []*proxy{w.front, w.back} {
		g.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
			defer cancel()
			if errs[i] = p.secrets.Renew(ctx); errs[i] == nil {
				errs[i] = p.secrets.Settled(ctx)
			}
		})
	}
	g.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// envoyConfig is what both have: where secrets come from.
const envoyConfig = `
node: {id: {{.ID}}, cluster: {{.ID}}}
admin: {address: {socket_address: {address: {{.Admin}}, port_value: 15000}}}
`

const sdsCluster = `
  - name: sds-grpc
    type: STATIC
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: sds-grpc, endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: {{.SDS}}}}}}]}]}
`

// tlsContext is mutual TLS by SDS, with a peer that must be one of the named.
func tlsContext(kind, peer string) string {
	return `
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.` + kind + `
        common_tls_context:
          tls_certificate_sds_secret_configs: [{name: default, sds_config: ` + sdsSource + `}]
          combined_validation_context:
            default_validation_context: {match_typed_subject_alt_names: [{san_type: URI, matcher: {exact: "` + peer + `"}}]}
            validation_context_sds_secret_config: {name: ROOTCA, sds_config: ` + sdsSource + `}
`
}

const sdsSource = `{resource_api_version: V3, api_config_source: {api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: sds-grpc}}]}}`

// hcm is an HTTP filter with one route, to a cluster or to the cluster that a header names.
func hcm(cluster, more string) string {
	return `
        name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: http
` + more + `
          http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - {match: {prefix: /, headers: [{name: x-peer, string_match: {exact: other}}]}, route: {cluster: other}}
              - {match: {prefix: /}, route: {cluster: ` + cluster + `}}
`
}

func address(ip, port string) string {
	return `{socket_address: {address: ` + ip + `, port_value: ` + port + `}}`
}

func listener(name, port, filter, socket string) string {
	out := `
  - name: ` + name + `
    address: ` + address("{{.IP}}", port) + `
    filter_chains:
    - filters:
      - ` + filter
	if socket != "" {
		out += `
      transport_socket:` + indent(socket)
	}
	return out
}

// indent moves a block below a filter chain.
func indent(s string) string {
	return string(bytes.ReplaceAll([]byte(s), []byte("\n"), []byte("\n  ")))
}

func tcpProxy(cluster string) string {
	return `
        name: envoy.filters.network.tcp_proxy
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: tcp, cluster: ` + cluster + `}
`
}

func cluster(name, ip, port, more string) string {
	return `
  - name: ` + name + `
    type: STATIC
    connect_timeout: 5s
    load_assignment: {cluster_name: ` + name + `, endpoints: [{lb_endpoints: [{endpoint: {address: ` + address(ip, port) + `}}]}]}
` + more
}

// shortLived closes connections after some requests, so that there are handshakes all the time.
const shortLived = `    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        common_http_protocol_options: {max_requests_per_connection: 3}
        explicit_http_config: {http_protocol_options: {}}
`

func secured(peer string) string {
	return `    transport_socket:` + tlsContext("UpstreamTlsContext", peer)
}

var (
	frontConfig = `
static_resources:
  listeners:` + listener("http", "8000", hcm("back", ""), "") + listener("tcp", "9000", tcpProxy("back-tcp"), "") + `
  clusters:` + sdsCluster +
		cluster("back", "{{.Back}}", "8443", shortLived+secured("{{.BackID}}")) +
		cluster("other", "{{.Back}}", "8443", shortLived+secured("{{.OtherID}}")) +
		cluster("back-tcp", "{{.Back}}", "9443", secured("{{.BackID}}"))

	backConfig = `
static_resources:
  listeners:` +
		listener("http", "8443",
			hcm("app", "          forward_client_cert_details: SANITIZE_SET\n          set_current_client_cert_details: {uri: true}\n"),
			mutual) +
		listener("tcp", "9443", tcpProxy("app-tcp"), mutual) + `
  clusters:` + sdsCluster + cluster("app", "{{.App}}", "8080",
		"") + cluster("other", "{{.App}}", "8080", "") + cluster("app-tcp", "{{.App}}", "9000", "")

	mutual = tlsContext("DownstreamTlsContext", "{{.FrontID}}") + `        require_client_certificate: true
`
)
