package logs

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestMesh provokes what a mesh can: each line is explained with the object behind it, its field, file and line.
func TestMesh(t *testing.T) {
	config, err := os.ReadFile("testdata/mesh.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := live.Start(t, live.Options{Folder: true, Grace: time.Millisecond, MeshConfig: string(config)})
	ca, stranger := m.Authority(t, "right"), m.Authority(t, "stranger")
	pair := ca.Issue(t, "secure.test")
	entry := ca.Issue(t, "secure.example")
	serve(t, m.Addr("app", live.Backing), nil)
	serve(t, m.Addr("secure", live.Backing), &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
	guarded := m.BackendOnLocalhost(t, "guarded")
	m.Authorizer(t, "authorizer")
	issuer, other := live.NewIssuer(t), live.NewIssuer(t)
	m.WriteFile(t, "rules.yaml", m.Rules(t, "rules.yaml", "stranger", stranger.File, "ca", ca.File, "cert", entry.CertFile,
		"key", entry.KeyFile, "guarded", guarded, "issuer", issuer.URL, "keys", issuer.Keys()))
	waitFor(t, filepath.Join(m.Folder, "rules.yaml"), m.Addr("plane", 8080))
	m.Client(t, "client")
	m.Proxy(t, live.Node{Name: "gateway", Router: true, Labels: map[string]string{"istio": "gateway"}})
	m.Proxy(t, live.Node{Name: "guarded"})
	m.Proxy(t, live.Node{Name: "changed"})
	w := world{m, issuer, other}
	attempts := append(w.outbound(), w.answers()...)
	attempts = append(append(attempts, w.malformed()...), w.servers(t)...)
	attempts = append(append(attempts, w.tokens(t)...), w.gateway()...)
	all(t, attempts, m.File("access.log"), m.Addr("plane", 8080))
}

// waitFor waits until the rules of a file are in force. Errors in them are wanted here.
func waitFor(t *testing.T, file, plane string) {
	rig.Eventually(t, func() error {
		_, text, code := explain(`{"response_code":404,"response_flags":"NR","authority":"wrongname.tesd"}`, "", plane)
		if code != 1 || !strings.Contains(text, "rules.yaml") {
			return fmt.Errorf("%s is not read:\n%s", file, text)
		}
		return nil
	})
}

type world struct {
	*live.Mesh
	issuer, other *live.Issuer
}

// at is a request of the client's workload.
func (w world) at(host, path string) live.Request {
	r := w.From("client", host)
	r.Path = path
	return r
}

// through sends a request for NAME.test through the client's proxy.
func (w world) through(name, path string, want expected) attempt {
	want.proxy = "client"
	return attempt{name: name, send: ask(w.at(name+".test", path)), want: want}
}

func (w world) outbound() []attempt {
	return []attempt{
		w.through("ok", "/", expected{status: 200, cause: "via_upstream"}),
		w.through("bad", "/status/500", expected{status: 500, cause: "via_upstream"}),
		w.through("noroute", "/", expected{exit: 1, status: 404, flag: "NR", cause: "route_not_found",
			object: "VirtualService default/noroute spec.http", means: `path prefix "/only" does not match`}),
		w.through("nosubset", "/", expected{exit: 1, status: 503, flag: "UH", cause: "no_healthy_upstream",
			object: "DestinationRule default/app spec.subsets[1]", means: `{version=v1}`}),
		w.through("empty", "/", expected{exit: 1, status: 503, flag: "UH", cause: "no_healthy_upstream",
			object: "ServiceEntry default/empty spec.endpoints", means: "no endpoint"}),
		w.through("nocluster", "/", expected{exit: 1, status: 503, flag: "NC", cause: "cluster_not_found",
			object: "VirtualService default/nocluster spec.http[1].route[0].destination", means: `subset "v9" of "app.test", there are v1, v2`}),
		w.through("nohost", "/", expected{exit: 1, status: 503, flag: "NC", cause: "cluster_not_found",
			object: "VirtualService default/nohost spec.http[0].route[0].destination", means: `there is no host "apq.test"; "app.test" is near`}),
		w.through("nohosd", "/", expected{exit: 1, status: 502, cause: "direct_response",
			object: "ServiceEntry default/app spec.hosts", means: `"nohost.test" is near`}).rename("nohosd"),
		w.through("refused", "/", expected{exit: 1, status: 503, flag: "UF", cause: "Connection_refused",
			object: "ServiceEntry default/refused spec.ports", means: "does not take the connection"}),
		w.through("plain", "/", expected{exit: 1, status: 503, flag: "UF", cause: "WRONG_VERSION_NUMBER",
			object: "DestinationRule default/plain spec.trafficPolicy.tls", means: "SIMPLE"}),
		w.through("wrongca", "/", expected{exit: 1, status: 503, flag: "UF", cause: "verify_cert_failed",
			object: "DestinationRule default/wrongca spec.trafficPolicy.tls"}),
		w.through("wrongname", "/", expected{exit: 1, status: 503, flag: "UF", cause: "SAN_matcher",
			object: "DestinationRule default/wrongname spec.trafficPolicy.tls", means: "another identity"}),
		w.through("slow", "/hang", expected{exit: 1, status: 504, flag: "UT", cause: "response_timeout",
			object: "VirtualService default/slow spec.http[1].timeout", means: "0.1"}),
		w.through("tries", "/hang", expected{exit: 1, status: 504, flag: "UT", cause: "upstream_per_try_timeout",
			object: "VirtualService default/tries spec.http[0].retries.perTryTimeout"}),
		w.through("exhausted", "/status/503", expected{exit: 1, status: 503, flag: "URX",
			object: "VirtualService default/exhausted spec.http[0].retries"}),
		w.through("closes", "/close", expected{exit: 1, status: 503, flag: "UC", cause: "connection_termination",
			object: "ServiceEntry default/app spec.endpoints", means: "ended the connection"}),
		w.through("half", "/half", expected{exit: 1, status: 200, flag: "UPE", cause: "protocol_error",
			object: "ServiceEntry default/app spec.ports[0]"}),
		w.through("garbage", "/garbage", expected{exit: 1, status: 502, flag: "UPE", cause: "protocol_error",
			object: "ServiceEntry default/app spec.ports[0]", means: "protocol HTTP"}),
		w.through("resets", "/close", expected{exit: 1, status: 503, flag: "UR", cause: "remote_reset",
			object: "ServiceEntry default/h2 spec.endpoints"}),
		{name: "overflow", send: w.overflow, line: "upstream_reset_before_response_started{overflow}", want: expected{
			proxy: "client", exit: 1, status: 503, flag: "UO", cause: "overflow",
			object: "DestinationRule default/overflow spec.trafficPolicy.connectionPool", means: "maxConnections",
		}},
		{name: "leaves", send: leave(w.at("leaves.test", "/hang")), want: expected{proxy: "client", exit: 1, flag: "DC",
			cause: "downstream_remote_disconnect"}},
		{name: "tcp", send: w.tcp, line: "outbound|9000||tcp.test", want: expected{proxy: "client", exit: 1, flag: "UF",
			object: "ServiceEntry default/tcp spec.ports"}},
	}
}

// rename is for hosts that are not NAME.test.
func (a attempt) rename(name string) attempt {
	a.name = name
	return a
}

// tcp connects to a service of connections.
func (w world) tcp(t *testing.T) {
	conn := live.Reach(t, net.Dialer{Timeout: rig.Bound}, w.Addr("tcp-vip", 9000))
	defer conn.Close()
	_, _ = io.Copy(io.Discard, conn)
}

// overflow has more requests at once than the connection pool takes.
func (w world) overflow(t *testing.T) {
	live.StartBlocked(t, 4, w.at("overflow.test", "/hang")).Next(t)
}

func (w world) answers() []attempt {
	cors := w.at("cors.test", "/")
	cors.Method, cors.Header = "OPTIONS", map[string]string{"origin": "https://friend.test", "access-control-request-method": "GET"}
	return []attempt{
		w.through("delayed", "/", expected{status: 200, flag: "DI", object: "VirtualService default/delayed spec.http[0].fault"}),
		w.through("aborted", "/", expected{exit: 1, status: 418, flag: "FI", cause: "fault_filter_abort",
			object: "VirtualService default/aborted spec.http[0].fault", means: "418"}),
		w.through("direct", "/", expected{exit: 1, status: 418, cause: "direct_response",
			object: "VirtualService default/direct spec.http[0].directResponse"}),
		w.through("moved", "/", expected{exit: 1, status: 301, cause: "direct_response",
			object: "VirtualService default/moved spec.http[0].redirect"}),
		{name: "cors", send: ask(cors), want: expected{proxy: "client", exit: 1, status: 200, cause: "cors_response",
			object: "VirtualService default/cors spec.http[0].corsPolicy"}},
	}
}

// malformed are requests that break rules of HTTP. Their lines are known by the details.
func (w world) malformed() []attempt {
	egress := w.Addr("client-egress", live.HTTPPort)
	of := func(details, text string, want expected) attempt {
		want.proxy, want.exit, want.cause = "client", 1, details
		return attempt{name: details, line: " " + details + " ", send: raw(egress, text), want: want}
	}
	head := "GET / HTTP/1.1\r\nHost: app.test\r\n"
	return []attempt{
		of("http1.codec_error", "nonsense\r\n\r\n", expected{status: 400, flag: "DPE"}),
		of("missing_host_header", "GET / HTTP/1.1\r\n\r\n", expected{status: 400}),
		of("low_version", "GET / HTTP/1.0\r\n\r\n", expected{status: 426, flag: "DPE"}),
		of("path_normalization_failed", "GET /a#b HTTP/1.1\r\nHost: app.test\r\n\r\n", expected{status: 400}),
		of("http1.too_many_headers", head+strings.Repeat("a: b\r\n", 200)+"\r\n", expected{status: 431, flag: "DPE"}),
		of("http1.headers_too_large", head+"a: "+strings.Repeat("b", 100<<10)+"\r\n\r\n", expected{status: 431, flag: "DPE"}),
		of("http1.content_length_and_chunked_not_allowed", head+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			expected{status: 400, flag: "DPE"}),
		of("http1.invalid_transfer_encoding", head+"Transfer-Encoding: odd\r\n\r\n", expected{status: 501, flag: "DPE"}),
		of("http1.invalid_characters", head+"a: b\x01c\r\n\r\n", expected{status: 400, flag: "DPE"}),
		of("upgrade_failed", head+"Connection: upgrade\r\nUpgrade: odd\r\n\r\n", expected{status: 403}),
	}
}

// servers are requests at the proxies of workloads.
func (w world) servers(t *testing.T) []attempt {
	to := func(proxy, name, method, path string, port int, want expected) attempt {
		want.proxy, want.exit = proxy, 1
		return attempt{name: name, want: want,
			send: ask(live.Request{To: w.Addr(proxy, port), Host: name + ".test", Method: method, Path: path})}
	}
	refuse := to("guarded", "ext-denied", "GET", "/asked", 8080, expected{status: 403, flag: "UAEX", cause: "ext_authz_denied",
		object: "AuthorizationPolicy default/guarded-custom spec.provider", means: `"asks"`})
	refuse.send = ask(live.Request{To: w.Addr("guarded", 8080), Host: "ext-denied.test", Path: "/asked", Header: map[string]string{
		"x-do": "status=403",
	}})
	limited := to("changed", "limited", "GET", "/", 8080, expected{status: 429, flag: "RL", cause: "local_rate_limited",
		object: "EnvoyFilter default/changed-limit spec"})
	send := limited.send
	limited.also = " RL "
	limited.send = func(t *testing.T) { send(t); send(t) }
	return []attempt{
		to("guarded", "deny-rule", "GET", "/admin/x", 8080, expected{status: 403, cause: "rbac_access_denied_matched_policy",
			object: "AuthorizationPolicy default/guarded-deny spec.rules[1]", means: "DENY"}),
		to("guarded", "no-allow", "PUT", "/", 8080, expected{status: 403, cause: "rbac_access_denied_matched_policy",
			object: "AuthorizationPolicy default/guarded-allow spec.rules", means: "no rule of this ALLOW policy matches"}),
		to("guarded", "inbound-refused", "GET", "/", 8081, expected{status: 503, flag: "UF", cause: "Connection_refused",
			means: "the workload beside the proxy does not take the connection"}),
		{name: "deny-tcp", line: `policy[guarded-deny]-rule[0]] "-"`,
			send: drain(w.Addr("guarded", 9000), "hello\n"), want: expected{proxy: "guarded", exit: 1,
				cause: "rbac_access_denied_matched_policy", object: "AuthorizationPolicy default/guarded-deny spec.rules[0]"}},
		refuse,
		to("changed", "ext-away", "GET", "/asked", 8080, expected{status: 403, flag: "UAEX", cause: "ext_authz_error",
			object: "AuthorizationPolicy default/changed-custom spec.provider"}),
		to("changed", "lua", "GET", "/lua", 8080, expected{status: 418, cause: "lua_response",
			object: "EnvoyFilter default/changed-lua spec"}),
		limited,
	}
}

// tokens are requests with tokens that are not valid.
func (w world) tokens(t *testing.T) []attempt {
	of := func(name, token, reason string) attempt {
		return attempt{name: name, send: ask(live.Request{To: w.Addr("guarded", 8080), Host: name + ".test", Header: map[string]string{
			"authorization": "Bearer " + token,
		}}), want: expected{proxy: "guarded", exit: 1, cause: "jwt_authn_access_denied",
			object: "RequestAuthentication default/guarded spec.jwtRules[0]", means: reason}}
	}
	good := map[string]any{"sub": "ann", "aud": "shop"}
	forged := w.other.Token(t, map[string]any{"sub": "ann", "aud": "shop", "iss": w.issuer.URL})
	return []attempt{
		of("token-expired", w.issuer.Token(t, map[string]any{"sub": "ann", "aud": "shop", "exp": 1}), "Jwt is expired"),
		of("token-early", w.issuer.Token(t, map[string]any{"sub": "ann", "aud": "shop", "nbf": 1 << 40}), "Jwt not yet valid"),
		of("token-audience", w.issuer.Token(t, map[string]any{"sub": "ann", "aud": "bank"}), "Audiences in Jwt are not allowed"),
		of("token-issuer", w.other.Token(t, good), "Jwt issuer is not configured"),
		of("token-forged", forged, "Jw"),
		of("token-malformed", "abc", "Jwt is not in the form"),
	}
}

func (w world) gateway() []attempt {
	to := w.Addr("entry", 8000)
	of := func(name, host, path string, want expected) attempt {
		want.proxy, want.exit = "gateway", 1
		return attempt{name: name, line: `"` + host + `" `, send: ask(live.Request{To: to, Host: host, Path: path}), want: want}
	}
	return []attempt{
		of("gateway-host", "shoq.example", "/", expected{status: 404, flag: "NR", cause: "route_not_found",
			object: "VirtualService default/entry spec.hosts", means: `"shop.example" is near`}),
		of("gateway-path", "shop.example", "/other", expected{status: 404, flag: "NR", cause: "route_not_found",
			object: "VirtualService default/entry spec.http", means: `path prefix "/shop" does not match`}),
		of("gateway-redirect", "secure.example", "/", expected{status: 301, cause: "direct_response",
			object: "Gateway default/entry spec.servers[1].tls.httpsRedirect"}),
		{name: "gateway-misdirected", line: `"lost.example"`, want: expected{proxy: "gateway", exit: 1, status: 421, cause: "direct_response",
			means: `"secure.example" is for another host`}, send: ask(live.Request{To: w.Addr("entry", 8443), Host: "lost.example",
			TLS: &tls.Config{ServerName: "secure.example", InsecureSkipVerify: true}})},
	}
}
