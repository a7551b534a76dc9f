package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"fairway/internal/agent/token"
	"fairway/internal/identity"
	"fairway/test/envoy/live"
	"fairway/test/plane"
	"fairway/test/rig"
)

// gatewayIP is the address of the gateway that is attacked; its ports are its own.
const gatewayIP = "127.31.9.7"

// hostileListener is what another user's rules could make of a gateway: a listener that forwards requests, as they are,
// to one address of the gateway's machine.
const hostileListener = `
  - name: %[1]s
    address: {socket_address: {address: %[2]s, port_value: %[3]d}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: %[1]s
          route_config:
            virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: %[1]s, timeout: 5s}}]}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
`

const hostileCluster = `
  - name: %[1]s
    connect_timeout: 1s
    type: STATIC
    load_assignment: {cluster_name: %[1]s, endpoints: [{lb_endpoints: [{endpoint: {address: %[2]s}}]}]}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {%[3]s: {}}
`

// gateway is a real gateway with clusters that an attacker has chosen.
type gateway struct {
	*rig.Process
	dir           string
	key           token.Token
	admin, status uint16
	doors         map[string]uint16 // by cluster: where its listener is
}

func (g *gateway) through(door, path string) string {
	return fmt.Sprintf("http://%s:%d%s", gatewayIP, g.doors[door], path)
}

func (g *gateway) folder() string { return filepath.Join(g.dir, "etc/istio/proxy") }

// hostile writes a configuration for the gateway that its control plane would not send: a cluster and a listener for
// each of the agent's sockets and ports.
func (g *gateway) hostile(t *testing.T) string {
	t.Helper()
	pipe := func(name string) string { return fmt.Sprintf("{pipe: {path: ./etc/istio/proxy/%s}}", name) }
	port := func(host string, n uint16) string {
		return fmt.Sprintf("{socket_address: {address: %s, port_value: %d}}", host, n)
	}
	const h1, h2 = "http_protocol_options", "http2_protocol_options"
	clusters, listeners := "", ""
	for name, to := range map[string][2]string{
		"sds": {pipe("SDS"), h2}, "xds": {pipe("XDS"), h2}, "status": {port(gatewayIP, g.status), h1},
		"admin":       {port("127.0.0.1", g.admin), h1},
		"adminsocket": {pipe(g.key.Derive("administration")), h1},
	} {
		g.doors[name] = rig.FreePort(t)
		clusters += fmt.Sprintf(hostileCluster, name, to[0], to[1])
		listeners += fmt.Sprintf(hostileListener, name, gatewayIP, g.doors[name])
	}
	return "static_resources:\n  clusters:" + clusters + "  listeners:" + listeners
}

// startGateway starts a control plane and a gateway with an identity. The socket of its administration is known, as it
// is to a user who reads the machine's list of sockets.
func startGateway(t *testing.T) *gateway {
	t.Helper()
	envoy := live.NeedEnvoy(t)
	o := plane.Options()
	o.SecureAddr = fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	o.Identity.CA.Plugged, o.Identity.CA.State = "", filepath.Join(t.TempDir(), "ca")
	p := plane.Start(t, o)
	join, err := p.Discovery.JoinTokens().Create(identity.ID{TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "gw"},
		time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{dir: rig.Folder(t), admin: rig.FreePort(t), status: rig.FreePort(t), doors: map[string]uint16{}}
	if g.key, _, err = token.Open(g.folder()); err != nil { // an agent before this one was killed
		t.Fatal(err)
	}
	rig.Write(t, g.dir, "hostile.yaml", []byte(g.hostile(t)))
	g.Process = rig.Workload{
		Command: rig.Command{
			Name: "gw", Path: agent.Path(t), Dir: g.dir,
			Args: []string{
				"--adminPort", fmt.Sprint(g.admin), "--statusPort", fmt.Sprint(g.status), "--readyPort", "0",
				"--prometheusPort", fmt.Sprint(rig.FreePort(t)),
			},
			Env: []string{"CA_ADDR=" + o.SecureAddr, "ISTIO_BOOTSTRAP_OVERRIDE=" + filepath.Join(g.dir, "hostile.yaml")},
		},
		Role: "router", Account: "gw", IP: gatewayIP, Discovery: o.SecureAddr, Envoy: envoy,
		Proof: rig.Proof{Token: []byte(join), Roots: p.Discovery.Authority().Roots()},
	}.Launch(t)
	rig.Eventually(t, func() error {
		g.Running(t)
		return g.readyNow()
	})
	return g
}

func (g *gateway) readyNow() error {
	code, body, err := rig.Call(http.MethodGet, fmt.Sprintf("http://%s:%d/healthz/ready", gatewayIP, g.status), nil)
	if err == nil && code != http.StatusOK {
		err = errors.New(body)
	}
	return err
}

// TestTheGatewaysOwnSockets: rules that lead to the agent's sockets and ports get nothing there: no key, no
// configuration, no end of the gateway, no page of Envoy's administration; nor do other users of its machine.
// Administrators of the gateway work as before.
func TestTheGatewaysOwnSockets(t *testing.T) {
	g := startGateway(t)
	for _, door := range []string{"sds", "xds"} {
		if got := g.speak(t, door); got != codes.Unauthenticated {
			t.Errorf("through the gateway to %s: %s, want Unauthenticated", door, got)
		}
	}
	for _, c := range []struct{ method, door, path string }{
		{"POST", "status", "/quitquitquit"}, {"POST", "status", "/drain"}, {"POST", "status", "/hot-restart"},
		{"GET", "status", "/debug/agent"}, {"GET", "status", "/debug/bootstrap"},
		{"POST", "admin", "/quitquitquit"}, {"POST", "admin", "/healthcheck/fail"}, {"POST", "admin", "/logging?level=trace"},
		{"GET", "admin", "/config_dump"},
		{"GET", "admin", "/clusters"}, {"GET", "admin", "/stats"}, {"GET", "admin", "/quitquitquit"}, {"GET", "admin", "/nothing"},
	} {
		if code, body, err := rig.Call(c.method, g.through(c.door, c.path), nil); err != nil || code != http.StatusForbidden {
			t.Errorf("%s %s through the gateway to %s: %d %.200s %v", c.method, c.path, c.door, code, body, err)
		}
	}
	if code, body, err := rig.Call(http.MethodGet, g.through("adminsocket", "/config_dump"), nil); err != nil ||
		code != http.StatusServiceUnavailable {
		t.Errorf("through the gateway to the socket that the administration was opened at: %d %.200s %v", code, body, err)
	}
	g.Running(t)
	if err := g.readyNow(); err != nil {
		t.Errorf("after that: %v", err)
	}
	t.Run("people", g.people)
	t.Run("other users", g.strangers)
	if code, body, err := rig.CallAgent(http.MethodPost, fmt.Sprintf("http://%s:%d/quitquitquit", gatewayIP, g.status),
		g.folder()); err != nil ||
		code != http.StatusOK {
		t.Fatalf("with the token: %d %s %v", code, body, err)
	}
	if code := g.Exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// people checks that administrators of the gateway can work as usual.
func (g *gateway) people(t *testing.T) {
	at := fmt.Sprintf("http://localhost:%d", g.admin)
	for path, want := range map[string]string{
		"/server_info":              `"state": "LIVE"`,
		"/stats?filter=server.live": "server.live: 1",
		"/clusters":                 "sds-grpc::",
		"/config_dump":              `"sds-grpc"`,
	} {
		code, body, err := rig.Call(http.MethodGet, at+path, nil)
		if err != nil || code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d %.200s %v", path, code, body, err)
		}
		for _, secret := range []string{string(g.key), g.key.Derive("administration"), g.key.Derive("administration, moved")} {
			if strings.Contains(body, secret) {
				t.Errorf("GET %s shows a secret of the agent's", path)
			}
		}
	}
	if code, _, err := rig.Call(http.MethodPost, at+"/healthcheck/fail", nil); err != nil || code != http.StatusForbidden {
		t.Errorf("POST without the token: %d %v", code, err)
	}
	for _, c := range []struct{ args, want string }{
		{fmt.Sprintf("request --debug-port=%d GET clusters", g.admin), "sds-grpc::"},
		{fmt.Sprintf("request --debug-port=%d POST logging?level=warning", g.admin), "active loggers"},
	} {
		command := exec.Command(agent.Path(t), strings.Fields(c.args)...)
		command.Dir = g.dir
		if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("pilot-agent %s: %v %.300s", c.args, err, out)
		}
	}
	code, body, err := rig.Call(http.MethodGet, fmt.Sprintf("http://%s:%d/debug/agent", gatewayIP, g.status), nil)
	if err != nil || code != http.StatusOK || strings.Contains(body, string(g.key)) {
		t.Errorf("/debug/agent: %d %.300s %v", code, body, err)
	}
}

// strangers are other users of the gateway's machine.
func (g *gateway) strangers(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if os.Geteuid() != 0 || err != nil {
		t.Skip("wants root and curl")
	}
	nobody := func(args ...string) string {
		ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
		defer cancel()
		c := exec.CommandContext(ctx, curl, append([]string{"-s", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}"}, args...)...)
		c.Dir = "/"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, _ := c.Output() // curl's code says that nothing was answered
		return string(out)
	}
	for _, name := range []string{"SDS", "XDS", g.key.Derive("administration, moved")} {
		path := filepath.Join(g.folder(), name)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if got := nobody("--http2-prior-knowledge", "--unix-socket", path, "http://x/"); got != "000" {
			t.Errorf("nobody speaks to %s: %s", name, got)
		}
	}
	for _, args := range [][]string{
		{
			"-X", "POST", fmt.Sprintf("http://%s:%d/quitquitquit", gatewayIP, g.status),
		}, {fmt.Sprintf("http://127.0.0.1:%d/config_dump", g.admin)},
		{"-X", "POST", fmt.Sprintf("http://127.0.0.1:%d/quitquitquit", g.admin)},
	} {
		if got := nobody(args...); got != "403" {
			t.Errorf("nobody asks %v: %s", args, got)
		}
	}
	cat := exec.Command("cat", filepath.Join(g.folder(), token.File))
	cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cat.Output(); err == nil {
		t.Errorf("nobody reads the token: %s", out)
	}
}

// speak asks through the gateway for the mesh's key, or for its configuration, and gives how that ended.
func (g *gateway) speak(t *testing.T, door string) codes.Code {
	t.Helper()
	conn, err := grpc.NewClient(fmt.Sprintf("passthrough:///%s:%d", gatewayIP, g.doors[door]),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), rig.Bound)
	defer cancel()
	if door == "sds" {
		stream, err := secretv3.NewSecretDiscoveryServiceClient(conn).StreamSecrets(ctx)
		if err == nil {
			_ = stream.Send(&discoveryv3.DiscoveryRequest{ResourceNames: []string{"default"}}) // how it ended says Recv
			_, err = stream.Recv()
		}
		return status.Code(err)
	}
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err == nil {
		_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"})
		_, err = stream.Recv()
	}
	return status.Code(err)
}
