package logs

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// health are specials with the filter that answers health checks.
func health() []special {
	of := func(name, fields string, send func(*testing.T, string), want expected) special {
		return special{name: name, send: send, want: want,
			filters: filter("health_check", "HealthCheck", fields+`, headers: [{name: ":path", string_match: {prefix: /}}]`)}
	}
	share := func(cluster string) string {
		return "pass_through_mode: false, cluster_min_healthy_percentages: {" + cluster + ": {value: 50}}"
	}
	cached := of("unwell-cached", "pass_through_mode: true, cache_time: 600s", twice(get("/status/503")),
		expected{status: 503, flag: "LH", cause: "health_check_cached"})
	cached.also = " health_check_cached "
	return []special{
		of("unwell-cluster", share("sick"), func(t *testing.T, address string) { until(t, address, "/", http.StatusServiceUnavailable) },
			expected{status: 503, flag: "LH", cause: "health_check_failed_cluster_unhealthy"}),
		of("unwell-unknown", share("nowhere"), get("/"), expected{status: 503, flag: "LH", cause: "health_check_failed_no_cluster_found"}),
		of("well-cluster", share("app"), get("/"), expected{status: 200, cause: "health_check_ok_cluster_healthy"}),
		cached,
	}
}

// credentials are specials with requests with credentials that are not taken.
func credentials() []special {
	passwords := filter("basic_auth", "BasicAuth", `users: {inline_string: "user:{SHA}tESsBmE/yNY3lb6a0L6vVQEZNqw="}`)
	keys := filter("api_key_auth", "ApiKeyAuth", `credentials: [{key: one, client: one}], key_sources: [{header: x-key}]`)
	only := "{typed_per_filter_config: {api_key_auth: {\"@type\": " + httpFilter +
		"api_key_auth.v3.ApiKeyAuthPerRoute, allowed_clients: [other]}}}"
	return []special{
		{name: "password-scheme", filters: passwords, send: get("/", "authorization", "Bearer x"),
			want: expected{status: 401, cause: "invalid_scheme_for_basic_auth"}},
		{name: "password-format", filters: passwords, send: get("/", "authorization", "Basic dXNlcg=="),
			want: expected{status: 401, cause: "invalid_format_for_basic_auth"}},
		{name: "key-of-another", filters: keys, route: only, send: get("/", "x-key", "one"),
			want: expected{status: 403, cause: "client_not_allowed"}},
	}
}

// connections are specials with connections that the proxy ends. The listener logs them.
func connections(pair live.Pair) []special {
	return []special{
		{name: "tls-late", chain: `{transport_socket_connect_timeout: 0.1s, transport_socket: {name: tls, typed_config: {"@type": ` +
			`type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext, common_tls_context: {tls_certificates: ` +
			`[{certificate_chain: {filename: ` + pair.CertFile + `}, private_key: {filename: ` + pair.KeyFile + `}}]}}}}`, send: text(""),
			want: expected{cause: "transport_socket_timeout"}},
	}
}

// limited are specials with limits of requests.
func limited() []special {
	service := filter("ratelimit", "RateLimit", "domain: x, rate_limit_service: {grpc_service: {envoy_grpc: {cluster_name: limiter}}, "+
		"transport_api_version: V3}")
	few := filter("adaptive_concurrency", "AdaptiveConcurrency", "gradient_controller_config: {concurrency_limit_params: "+
		"{concurrency_update_interval: 3600s}, min_rtt_calc_params: {interval: 3600s, request_count: 50, min_concurrency: 1}}")
	denial := filter("admission_control", "AdmissionControl", "enabled: {default_value: true}, sampling_window: 60s, "+
		"success_criteria: {http_criteria: {http_success_status: [{start: 200, end: 300}]}}, aggression: {default_value: 5.0}, "+
		"rps_threshold: {default_value: 0}")
	return []special{
		{name: "limit-of-service", filters: service, route: "{route: {cluster: app, rate_limits: [{actions: [{request_headers: " +
			"{header_name: x-limit, descriptor_key: limit}}]}]}}", send: get("/", "x-limit", "over"),
			want: expected{status: 429, flag: "RL", cause: "request_rate_limited"}},
		{name: "concurrent", filters: few, also: " reached_concurrency_limit ", send: func(t *testing.T, address string) {
			r := live.Request{To: address, Host: "app.test", Path: "/hang"}
			live.StartBlocked(t, 4, r).Next(t)
		}, want: expected{status: 503, cause: "reached_concurrency_limit"}},
		{name: "not-admitted", filters: denial, also: " denied_by_admission_control ", send: func(t *testing.T, address string) {
			until(t, address, "/status/500", http.StatusServiceUnavailable)
		}, want: expected{status: 503, cause: "denied_by_admission_control"}},
	}
}

// TestHalfClose has an endpoint that answers before it has the whole request, which this Envoy takes for an error.
func TestHalfClose(t *testing.T) {
	m := live.Start(t, live.Options{})
	serve(t, m.Addr("app", live.Backing), nil)
	all(t, static(t, m, "half-close", "", []special{
		{name: "early", send: line("POST /early HTTP/1.1\r\nHost: app.test\r\nContent-Length: 100\r\n\r\nhalf"),
			want: expected{status: 200, flag: "LR", cause: "HTTP/1_premature_upstream_half_close"}},
	}), m.File("half-close.access.log"), "127.0.0.1:1")
}

// TestUnwell has an Envoy whose administrator says that it is unwell.
func TestUnwell(t *testing.T) {
	m := live.Start(t, live.Options{})
	serve(t, m.Addr("app", live.Backing), nil)
	attempts := static(t, m, "unwell", "", []special{
		{name: "told", filters: filter("health_check", "HealthCheck",
			`pass_through_mode: false, headers: [{name: ":path", string_match: {exact: /}}]`), send: get("/"),
			want: expected{status: 503, flag: "LH", cause: "health_check_failed"}},
	})
	resp, err := http.Post("http://"+m.Addr("unwell-admin", 15000)+"/healthcheck/fail", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	all(t, attempts, m.File("unwell.access.log"), "127.0.0.1:1")
}

// TestMemory has an Envoy whose overload manager resets the streams that use the most memory.
func TestMemory(t *testing.T) {
	m := live.Start(t, live.Options{})
	serve(t, m.Addr("app", live.Backing), nil)
	overload := pressed(t, m, `buffer_factory_config: {minimum_account_to_track_power_of_two: 10}, `+
		`actions: [{name: envoy.overload_actions.reset_high_memory_stream, triggers: [{name: pressure, scaled: `+
		`{scaling_threshold: 0.5, saturation_threshold: 0.9}}]}]`)
	all(t, static(t, m, "memory", overload, []special{
		{name: "unread", send: func(t *testing.T, address string) {
			unread(t, address)
			high := true
			rig.Eventually(t, func() error { // streams are reset when the pressure rises
				press(t, m, map[bool]string{true: "1.0", false: "0.0"}[high])
				high = !high
				if text, err := os.ReadFile(m.File("memory.access.log")); err != nil || len(text) == 0 {
					return fmt.Errorf("no stream is reset: %v", err)
				}
				return nil
			})
		}, want: expected{status: 200, flag: "OM", cause: "overload"}},
	}), m.File("memory.access.log"), "127.0.0.1:1")
}

// unread asks over HTTP/2 for more than it takes, and does not read it.
func unread(t *testing.T, address string) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/huge", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		resp.Body.Close()
		transport.CloseIdleConnections()
	})
}
