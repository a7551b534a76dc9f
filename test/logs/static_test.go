package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy/listener"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// special is a listener with settings that the control plane never makes, and the request that shows them.
type special struct {
	name    string
	hcm     string // fields of the connection manager, as YAML
	filters string // HTTP filters before the router, as a list in YAML
	router  string // fields of the router
	route   string // fields of the route
	chain   string // fields of the filter chain; if there are any, the listener logs connections
	buffer  int    // bytes that the listener buffers; 0: Envoy's own
	tcp     string // fields of the TCP proxy in place of the connection manager
	send    func(t *testing.T, address string)
	also    string // a part of the line, if there are several requests
	format  string // of the log: "JSON" for this project's, "Envoy" for Envoy's own; empty: this project's text
	want    expected
}

// static starts an Envoy with a listener for each of the specials. It returns their attempts.
func static(t *testing.T, m *live.Mesh, name, base string, all []special) (out []attempt) {
	t.Helper()
	log := m.File(name + ".access.log")
	listeners := []any{}
	for i, s := range all {
		port := 10000 + i
		address := m.Addr(name, port)
		listeners = append(listeners, s.listener(t, m.IP(name), port, log))
		s.want.exit = 1
		line := map[string]string{"": address + " ", "JSON": `"` + address + `"`, "Envoy": `"` + s.name + `.test"`}[s.format]
		out = append(out, attempt{name: s.name, line: line, also: s.also, send: func(t *testing.T) { s.send(t, address) }, want: s.want})
	}
	var bootstrap map[string]any
	admin := m.Addr(name+"-admin", 15000)
	text := m.Rules(t, "static.yaml", "admin", m.IP(name+"-admin"), "more", base, "half-close", name == "half-close")
	if err := yaml.Unmarshal([]byte(text), &bootstrap); err != nil {
		t.Fatal(err)
	}
	bootstrap["static_resources"].(map[string]any)["listeners"] = listeners
	written, err := json.Marshal(bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	file := m.File(name + ".json")
	if err := os.WriteFile(file, written, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, file, admin)
	return out
}

// run runs an Envoy until the test ends, and waits until it is live.
func run(t *testing.T, file, admin string) {
	t.Helper()
	var errs bytes.Buffer
	c := exec.Command(live.NeedEnvoy(t), "-c", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning",
		"--file-flush-interval-msec", "100", "--drain-time-s", "1")
	c.Stderr = &errs
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(ended) // and errs is complete
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-ended
	})
	rig.Eventually(t, func() error {
		select {
		case <-ended:
			t.Fatalf("Envoy ended: %s", errs.String()[max(0, errs.Len()-2000):])
		default:
		}
		resp, err := http.Get("http://" + admin + "/ready")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("ready: %s", resp.Status)
		}
		return nil
	})
}

// fields reads YAML.
func fields[T any](t *testing.T, text string) (out T) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return out
}

func (s special) listener(t *testing.T, ip string, port int, log string) map[string]any {
	file := map[string]any{"@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": log}
	if s.format != "Envoy" {
		format, err := protojson.Marshal(listener.AccessLog{JSON: s.format == "JSON"}.LineFormat())
		if err != nil {
			t.Fatal(err)
		}
		file["log_format"] = json.RawMessage(format)
	}
	access := []any{map[string]any{"name": "file", "typed_config": file}}
	filter := map[string]any{
		"@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "tcp", "access_log": access,
	}
	if s.tcp != "" {
		maps.Copy(filter, fields[map[string]any](t, s.tcp))
	} else {
		filter = s.manager(t, access)
	}
	chain := map[string]any{"filters": []any{map[string]any{"name": "main", "typed_config": filter}}}
	maps.Copy(chain, fields[map[string]any](t, s.chain))
	out := map[string]any{
		"name":    s.name,
		"address": map[string]any{"socket_address": map[string]any{"address": ip, "port_value": port}}, "filter_chains": []any{chain},
	}
	if s.chain != "" {
		out["access_log"] = access
	}
	if s.buffer > 0 {
		out["per_connection_buffer_limit_bytes"] = s.buffer
	}
	return out
}

func (s special) manager(t *testing.T, access []any) map[string]any {
	route := map[string]any{"name": "main", "match": map[string]any{"prefix": "/"}, "route": map[string]any{"cluster": "app"}}
	maps.Copy(route, fields[map[string]any](t, s.route))
	router := map[string]any{"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}
	maps.Copy(router, fields[map[string]any](t, s.router))
	out := map[string]any{
		"@type":       "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix": "http", "access_log": access,
		"http_filters": append(fields[[]any](t, s.filters), map[string]any{"name": "router", "typed_config": router}),
		"route_config": map[string]any{"name": "routes", "validate_clusters": false, "virtual_hosts": []any{map[string]any{
			"name": "all", "domains": []any{"*"}, "routes": []any{route},
		}}},
	}
	maps.Copy(out, fields[map[string]any](t, s.hcm))
	return out
}

// get asks for a path, with headers as pairs.
func get(path string, headers ...string) func(*testing.T, string) {
	return func(t *testing.T, address string) {
		r := live.Request{To: address, Host: "app.test", Path: path, Header: map[string]string{}}
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header[headers[i]] = headers[i+1]
		}
		ask(r)(t)
	}
}

// twice sends a request two times.
func twice(send func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, address string) {
		send(t, address)
		send(t, address)
	}
}

// text sends a text and reads until the connection ends.
func text(words string) func(*testing.T, string) {
	return func(t *testing.T, address string) { drain(address, words)(t) }
}

// line sends a text and reads a line.
func line(words string) func(*testing.T, string) {
	return func(t *testing.T, address string) { raw(address, words)(t) }
}

// until asks until the answer has a status.
func until(t *testing.T, address, path string, status int) {
	rig.Eventually(t, func() error {
		r, err := live.Try(live.Request{To: address, Host: "app.test", Path: path})
		if err == nil && r.Status != status {
			err = fmt.Errorf("got %d, want %d", r.Status, status)
		}
		return err
	})
}

// h2 asks over HTTP/2, with many headers.
func h2(path string, headers int) func(*testing.T, string) {
	return func(t *testing.T, address string) {
		r := live.Request{To: address, Host: "app.test", Path: path, HTTP2: true, Header: map[string]string{}}
		for i := range headers {
			r.Header[fmt.Sprintf("x-%d", i)] = "1"
		}
		ask(r)(t)
	}
}

const httpFilter = "type.googleapis.com/envoy.extensions.filters.http."

// filter is an HTTP filter in YAML.
func filter(name, message, config string) string {
	return fmt.Sprintf("- {name: %s, typed_config: {\"@type\": %s%s.v3.%s, %s}}", name, httpFilter, name, message, config)
}

// formats are specials with lines of other formats.
func formats() []special {
	nowhere := "{route: {cluster: missing}}"
	return []special{
		{name: "json", format: "JSON", route: nowhere, send: get("/"), want: expected{status: 503, flag: "NC", cause: "cluster_not_found"}},
		{name: "json-tcp", format: "JSON", tcp: "{cluster: empty}", send: text("x"), want: expected{flag: "UH", cause: "UH"}},
		{name: "envoy", format: "Envoy", route: nowhere, send: func(t *testing.T, address string) {
			ask(live.Request{To: address, Host: "envoy.test"})(t)
		}, want: expected{status: 503, flag: "NC", cause: "NC"}},
		{name: "envoy-answer", format: "Envoy", route: "{route: null, direct_response: {status: 403}}",
			send: func(t *testing.T, address string) {
				ask(live.Request{To: address, Host: "envoy-answer.test"})(t)
			}, want: expected{status: 403, cause: "403"}},
	}
}

// timeouts are specials with requests that last too long.
func timeouts() []special {
	post := "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 5\r\n\r\n"
	return []special{
		{name: "stream-idle", hcm: "{stream_idle_timeout: 0.1s}", send: get("/hang"),
			want: expected{status: 504, flag: "SI", cause: "stream_idle_timeout"}},
		{name: "longest-stream", hcm: "{common_http_protocol_options: {max_stream_duration: 0.1s}}", send: get("/hang"),
			want: expected{status: 504, cause: "max_duration_timeout"}},
		{name: "longest-upstream", route: "{route: {cluster: brief}}", send: get("/hang"),
			want: expected{flag: "UMSDR", cause: "upstream_max_stream_duration_reached"}},
		{name: "headers-late", hcm: "{request_headers_timeout: 0.1s}", send: line("GET / HTTP/1.1\r\nHost: a"),
			want: expected{status: 408, flag: "", cause: "request_header_timeout"}},
		{name: "body-late", hcm: "{request_timeout: 0.1s}", send: line(post),
			want: expected{status: 408, cause: "request_overall_timeout"}},
		{name: "try-idle", route: "{route: {cluster: app, retry_policy: {retry_on: 5xx, num_retries: 0, per_try_idle_timeout: 0.1s}}}",
			send: get("/hang"), want: expected{status: 504, flag: "UT", cause: "upstream_per_try_idle_timeout"}},
		{name: "tcp-longest", tcp: "{cluster: app, max_downstream_connection_duration: 0.1s}", send: text(""),
			want: expected{flag: "DT", cause: "DT"}},
		{name: "tcp-nothing", tcp: "{cluster: missing}", send: text("x"), want: expected{flag: "NC", cause: "NC"}},
		{name: "tcp-unhealthy", tcp: "{cluster: empty}", send: text("x"), want: expected{flag: "UH", cause: "UH"}},
	}
}

// refused are specials with requests that are refused.
func refused() []special {
	all := "{default_value: {numerator: 100, denominator: HUNDRED}}"
	passwords := filter("basic_auth", "BasicAuth", `users: {inline_string: "user:{SHA}tESsBmE/yNY3lb6a0L6vVQEZNqw="}`)
	keys := filter("api_key_auth", "ApiKeyAuth", `credentials: [{key: one, client: one}], key_sources: [{header: x-key}]`)
	return []special{
		{name: "strict-header",
			hcm:    "{use_remote_address: true, internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.0, prefix_len: 8}]}}",
			router: "{strict_check_headers: [x-envoy-upstream-rq-timeout-ms]}",
			send:   get("/", "x-envoy-upstream-rq-timeout-ms", "soon"), want: expected{status: 400, flag: "IH",
				cause: "request_headers_failed_strict_check"}},
		{name: "underscore", hcm: "{common_http_protocol_options: {headers_with_underscores_action: REJECT_REQUEST}}",
			send: line("GET / HTTP/1.1\r\nHost: a\r\na_b: c\r\n\r\n"), want: expected{status: 400, flag: "DPE",
				cause: "http1.unexpected_underscore"}},
		{name: "underscore-h2", hcm: "{common_http_protocol_options: {headers_with_underscores_action: REJECT_REQUEST}}",
			send: func(t *testing.T, address string) {
				ask(live.Request{To: address, Host: "app.test", HTTP2: true, Header: map[string]string{"a_b": "c"}})(t)
			}, want: expected{flag: "DR", cause: "http2.unexpected_underscore"}},
		{name: "headers-h2", hcm: "{common_http_protocol_options: {max_headers_count: 20}}", send: h2("/", 50),
			want: expected{flag: "DR", cause: "http2.too_many_headers"}},
		{name: "leaves-h2", send: func(t *testing.T, address string) {
			leave(live.Request{To: address, Host: "app.test", Path: "/hang", HTTP2: true})(t)
		}, want: expected{flag: "DR", cause: "http2.remote_reset"}},
		{name: "absolute", hcm: "{http_protocol_options: {allow_absolute_url: false}}",
			send: line("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
			want: expected{status: 404, cause: "absolute_path_rejected"}},
		{name: "no-address", hcm: `{original_ip_detection_extensions: [{name: h, typed_config: {"@type": ` +
			`type.googleapis.com/envoy.extensions.http.original_ip_detection.custom_header.v3.CustomHeaderConfig, header_name: x-ip, ` +
			`reject_with_status: {code: Forbidden}}}], use_remote_address: false}`, send: get("/"),
			want: expected{status: 403, cause: "rejecting_because_detection_failed"}},
		{name: "buffer", filters: filter("buffer", "Buffer", "max_request_bytes: 10"),
			send: line("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 20\r\n\r\n01234567890123456789"),
			want: expected{status: 413, cause: "request_payload_too_large"}},
		{name: "csrf", filters: filter("csrf", "CsrfPolicy", "filter_enabled: "+all), send: func(t *testing.T, address string) {
			ask(live.Request{To: address, Host: "app.test", Method: "POST", Header: map[string]string{"origin": "http://foe.test"}})(t)
		}, want: expected{status: 403, cause: "csrf_origin_mismatch"}},
		{name: "password", filters: passwords,
			send: get("/"), want: expected{status: 401, cause: "no_credential_for_basic_auth"}},
		{name: "wrong-password", filters: passwords,
			send: get("/", "authorization", "Basic dXNlcjpiYWQ="), want: expected{status: 401, cause: "invalid_credential_for_basic_auth"}},
		{name: "key", filters: keys,
			send: get("/"), want: expected{status: 401, cause: "missing_api_key"}},
		{name: "wrong-key", filters: keys,
			send: get("/", "x-key", "two"), want: expected{status: 401, cause: "unknown_api_key"}},
		{name: "loop", filters: filter("cdn_loop", "CdnLoopConfig", "cdn_id: cdn.test"), send: get("/", "cdn-loop", "cdn.test"),
			want: expected{status: 502, cause: "cdn_loop_detected"}},
		{name: "loop-header", filters: filter("cdn_loop", "CdnLoopConfig", "cdn_id: cdn.test"), send: get("/", "cdn-loop", "[cdn"),
			want: expected{status: 400, cause: "invalid_cdn_loop_header"}},
		{name: "websocket", hcm: "{upgrade_configs: [{upgrade_type: websocket}]}",
			send: line("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
			want: expected{status: 200, cause: "websocket_handshake_unsuccessful"}},
	}
}

// failing are specials in which the proxy or what it asks fails.
func failing() []special {
	dead := "{envoy_grpc: {cluster_name: dead}, timeout: 0.2s}"
	limits := filter("ratelimit", "RateLimit", "domain: x, failure_mode_deny: true, rate_limit_service: {grpc_service: "+dead+
		", transport_api_version: V3}")
	forwards := filter("dynamic_forward_proxy", "FilterConfig", "dns_cache_config: {name: names, dns_lookup_family: V4_ONLY, "+
		"dns_query_timeout: 0.5s}")
	cache := `- {name: cache, typed_config: {"@type": ` + httpFilter + `cache.v3.CacheConfig, typed_config: {"@type": ` +
		`type.googleapis.com/envoy.extensions.http.cache.simple_http_cache.v3.SimpleHttpCacheConfig}}}`
	late := `- {name: late, config_discovery: {config_source: {api_config_source: {api_type: GRPC, transport_api_version: V3, ` +
		`grpc_services: [{envoy_grpc: {cluster_name: dead}}]}, initial_fetch_timeout: 0.1s}, type_urls: [` + httpFilter +
		`buffer.v3.Buffer]}}`
	script := func(words string) string {
		return filter("lua", "Lua", `default_source_code: {inline_string: "function `+words+` end"}`)
	}
	return []special{
		{name: "unwell", filters: filter("health_check", "HealthCheck", `pass_through_mode: false, cluster_min_healthy_percentages: `+
			`{empty: {value: 50}}, headers: [{name: ":path", string_match: {exact: /}}]`), send: get("/"),
			want: expected{status: 503, flag: "LH", cause: "health_check_failed_cluster_empty"}},
		{name: "well", filters: filter("health_check", "HealthCheck",
			`pass_through_mode: false, headers: [{name: ":path", string_match: {exact: /}}]`), send: get("/"),
			want: expected{status: 200, cause: "health_check_ok"}},
		{name: "limiter", filters: limits, send: get("/"),
			route: "{route: {cluster: app, rate_limits: [{actions: [{generic_key: {descriptor_value: x}}]}]}}",
			want:  expected{status: 500, flag: "RLSE", cause: "rate_limiter_error"}},
		{name: "processor", filters: filter("ext_proc", "ExternalProcessor", "grpc_service: "+dead), send: get("/"),
			want: expected{status: 500, cause: "ext_proc_error"}},
		{name: "cache", filters: cache, send: twice(get("/cached")), also: " RFCF ",
			want: expected{status: 200, flag: "RFCF", cause: "cache.response_from_cache_filter"}},
		{name: "unknown-name", filters: forwards, route: "{route: {cluster: names}}", send: func(t *testing.T, address string) {
			ask(live.Request{To: address, Host: "nothing.invalid"})(t)
		}, want: expected{status: 503, flag: "DF", cause: "dns_resolution_failure"}},
		{name: "drops", route: "{route: {cluster: drops}}", send: get("/"), want: expected{status: 503, flag: "UDO",
			cause: "unconditional_drop_overload"}},
		{name: "drops-some", route: "{route: {cluster: drops-some}}", also: " DO ", send: func(t *testing.T, address string) {
			until(t, address, "/", http.StatusServiceUnavailable)
		}, want: expected{status: 503, flag: "DO", cause: "drop_overload"}},
		{name: "maintained", route: "{route: {cluster: maintained}}", send: get("/"), want: expected{status: 503, flag: "UO",
			cause: "maintenance_mode"}},
		{name: "removed", filters: script(`envoy_on_request(h) h:headers():remove(\":method\")`),
			send: get("/"), want: expected{status: 503, flag: "DPE", cause: "filter_removed_required_request_headers"}},
		{name: "unconfigured", filters: late,
			send: get("/"), want: expected{status: 500, flag: "NFCF", cause: "NFCF"}},
		{name: "redirected", route: "{route: {cluster: app, internal_redirect_policy: {}}}", send: get("/moved"),
			also: " internal_redirect ", want: expected{cause: "internal_redirect"}},
		{name: "large", filters: script("envoy_on_response(h) h:body()"), buffer: 1024,
			send: get("/large"), want: expected{status: 500, cause: "response_payload_too_large"}},
		{name: "no-chain", chain: "{filter_chain_match: {destination_port: 1}}", send: text("x"), want: expected{flag: "NR",
			cause: "filter_chain_not_found"}},
	}
}

// TestStatic provokes what the control plane never configures.
func TestStatic(t *testing.T) {
	m := live.Start(t, live.Options{})
	serve(t, m.Addr("app", live.Backing), nil)
	m.Limiter(t, "limiter").FailNext(1)
	pair := m.Authority(t, "static").Issue(t, "app.test")
	specials := slices.Concat(formats(), timeouts(), refused(), failing(), health(), credentials(), connections(pair), limited())
	all(t, static(t, m, "static", "", specials), m.File("static.access.log"), "127.0.0.1:1")
}

// TestOverload has an Envoy that its overload manager stops.
func TestOverload(t *testing.T) {
	m := live.Start(t, live.Options{})
	serve(t, m.Addr("app", live.Backing), nil)
	overload := pressed(t, m, `actions: [{name: envoy.overload_actions.stop_accepting_requests, `+
		`triggers: [{name: pressure, threshold: {value: 0.9}}]}]`)
	all(t, static(t, m, "overload", overload, []special{
		{name: "overloaded", send: func(t *testing.T, address string) {
			until(t, address, "/", http.StatusServiceUnavailable)
		}, also: " overload ", want: expected{status: 503, cause: "overload"}},
	}), m.File("overload.access.log"), "127.0.0.1:1")
}

// pressed returns an overload manager that is under pressure from now on.
func pressed(t *testing.T, m *live.Mesh, fields string) string {
	press(t, m, "1.0")
	return fmt.Sprintf(`overload_manager: {refresh_interval: 0.02s, resource_monitors: [{name: pressure, typed_config: {"@type": `+
		`type.googleapis.com/envoy.extensions.resource_monitors.injected_resource.v3.InjectedResourceConfig, filename: %s}}], %s}`,
		m.File("pressure"), fields)
}

// press sets the pressure. The monitor follows renames in the folder.
func press(t *testing.T, m *live.Mesh, pressure string) {
	file := m.File("pressure")
	if err := os.WriteFile(file+".new", []byte(pressure), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}
