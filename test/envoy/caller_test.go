package envoy

import (
	"strings"
	"testing"

	"fairway/internal/agent/exposition"
	"fairway/internal/envoy/caller"
	"fairway/test/envoy/live"
)

// These are the workloads that the proxies of TestMutualTLS announce; no two words are alike.
var (
	webWorkload = exposition.Workload{
		Name:      "web-7c9",
		Namespace: "default",
		App:       "web-app",
		Version:   "1.4",
		Service:   "web-svc",
		Revision:  "r14",
		Cluster:   "c-web",
	}
	edgeWorkload = exposition.Workload{
		Name:      "edge-5d1",
		Namespace: "default",
		App:       "edge-app",
		Version:   "2.0",
		Service:   "edge-svc",
		Revision:  "r20",
		Cluster:   "c-edge",
	}
	otherWorkload = exposition.Workload{
		Name:      "other-1a2",
		Namespace: "default",
		App:       "other-app",
		Version:   "0.1",
		Service:   "other-svc",
		Revision:  "r01",
		Cluster:   "c-other",
	}
	appWorkload = exposition.Workload{Name: "app-v1", Namespace: "default", Service: "app", Cluster: "Kubernetes"}
)

const claimed = "evil-1;evil-app;evil-2;evil-svc;evil-3;evil-c"

// sourceOf are the labels of a metric counted where a workload called.
func sourceOf(w exposition.Workload) []string {
	return []string{
		`reporter="destination"`,
		`source_workload="` + w.Name + `"`,
		`source_workload_namespace="` + w.Namespace + `"`,
		`source_app="` + w.App + `"`,
		`source_version="` + w.Version + `"`,
		`source_canonical_service="` + w.Service + `"`,
		`source_canonical_revision="` + w.Revision + `"`,
		`source_cluster="` + w.Cluster + `"`,
	}
}

// callers: a client with a certificate is counted as the workload that its proxy announces, whatever the requests
// claim; the app never sees the announcements.
func (w *mutual) callers(t *testing.T) {
	ask := func(who string, r live.Request) {
		t.Helper()
		reply := live.Send(t, with(r, caller.Header, claimed))
		wantServer(t, reply, "mutual-app")
		if got := reply.Echo.Header.Values(caller.Header); len(got) > 0 {
			t.Errorf("called by %s, the app is told %q", who, got)
		}
	}
	for who, k := range map[string]struct {
		workload exposition.Workload
		request  live.Request
	}{
		"web": {webWorkload, from(w.m, "app.test")}, "edge": {
			edgeWorkload,
			live.Request{To: w.m.Addr("mutual-entry", 8000), Host: "edge.example"},
		},
	} {
		labels := append(sourceOf(k.workload), `source_principal="spiffe://cluster.local/ns/default/sa/`+who+`"`,
			`connection_security_policy="mutual_tls"`)
		ask(who, k.request)
		k.request.HTTP2 = true
		ask(who, k.request)
		for _, metric := range []string{"istio_requests_total", "istio_request_duration_milliseconds_count"} {
			awaitMetric(t, w.app, appWorkload, 2, metric, append(labels, `request_protocol="http"`, `response_code="200"`)...)
		}
		ask(who, with(k.request, "content-type", "application/grpc"))
		awaitMetric(t, w.app, appWorkload, 1, "istio_requests_total", append(labels, `request_protocol="grpc"`)...)
	}
	for who, r := range map[string]live.Request{
		"a proxy without an identity": w.m.From(other, "app.test"),
		"a client in plaintext":       w.plaintext(),
	} {
		ask(who, r)
		awaitMetric(t, w.app, appWorkload, 1, "istio_requests_total", `reporter="destination"`, `source_workload="unknown"`,
			`source_principal="unknown"`, `connection_security_policy="none"`)
	}
	w.nobodySays(t, "evil")
	w.nobodySays(t, otherWorkload.Name)
}

// nobodySays fails if a claimed text has come into the app's statistics, under any name: then any client could fill them.
func (w *mutual) nobodySays(t *testing.T, what string) {
	t.Helper()
	for _, e := range []*live.Envoy{w.app, w.m.Envoy(client), w.m.Envoy(gateway)} {
		for line := range strings.Lines(e.RawMetrics(t)) {
			if strings.Contains(line, what) {
				t.Errorf("%s: %s", e.Name, line)
			}
		}
	}
}

// claims: the workload that a peer announces is accepted whole or not at all; its namespace and identity are never taken from the
// announcement.
func (w *mutual) claims(t *testing.T) {
	direct := w.plaintext()
	direct.TLS = w.trust.Issue(t, "visitor").TLS
	direct.TLS.NextProtos = []string{"istio"}
	visitor := exposition.Workload{
		Name:      "visitor-7",
		Namespace: "default",
		App:       "a",
		Version:   "v",
		Service:   "s",
		Revision:  "r",
		Cluster:   "c",
	}
	send := func(claim string, labels []string, value float64) {
		t.Helper()
		reply := live.Send(t, with(direct, caller.Header, claim))
		wantServer(t, reply, "mutual-app")
		if got := reply.Echo.Header.Values(caller.Header); len(got) > 0 {
			t.Errorf("the app is told %q", got)
		}
		awaitMetric(
			t,
			w.app,
			appWorkload,
			value,
			"istio_requests_total",
			append(labels, `source_principal="spiffe://cluster.local/ns/default/sa/visitor"`, `connection_security_policy="mutual_tls"`)...)
	}
	send(visitor.Claim().String(), sourceOf(visitor), 1)
	unknown := exposition.Workload{
		Name:      "unknown",
		Namespace: "default",
		App:       "unknown",
		Version:   "unknown",
		Service:   "unknown",
		Revision:  "unknown",
		Cluster:   "unknown",
	}
	for i, wrong := range []string{
		"evil", "evil;a;b;c;d;e;f", "evil ;a;b;c;d;e", `evil";a;b;c;d;e`, strings.Repeat("evil", 16) + ";a;b;c;d;e",
		strings.Repeat("evil", 1500) + ";a;b;c;d;e",
	} {
		send(wrong, sourceOf(unknown), float64(i+1))
	}
	for _, line := range w.app.Metrics(t, appWorkload) {
		if strings.Contains(line, "evil") {
			t.Errorf("what is no claim is believed: %s", line)
		}
	}
}

// outside: a server outside the mesh gets no announcement, whichever way a request takes; neither clients nor rules can change that.
func (w *mutual) outside(t *testing.T) {
	out, in := w.m.Backend(t, "mutual-out"), w.m.Backend(t, "mutual-in")
	w.m.Apply(t, w.m.Rules(t, "mutual.txtar:outside", "header", caller.Header, "claim", claimed))
	told := func(b *live.Backend, host, path string, want ...string) {
		t.Helper()
		r := with(from(w.m, host), caller.Header, claimed)
		r.Path = path
		if reply := live.Send(t, r); reply.Status != 200 {
			t.Errorf("%s%s: %d %s", host, path, reply.Status, reply.Body)
		}
		got := b.Await(t, func(e live.Echo) bool { return strings.HasPrefix(e.Path, path) }).Header.Values(caller.Header)
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s%s: %s is told %q, want %q", host, path, b.Name, got, want)
		}
	}
	told(out, "mutual-out.test", "/direct")
	for _, path := range []string{"/mirrored", "/8001", "/9100", "/9101"} {
		told(out, "mutual-in.test", path)
	}
	for _, path := range []string{"/inside", "/set"} {
		told(in, "mutual-in.test", path, webWorkload.Claim().String())
	}
	w.m.Delete(t, "VirtualService mutual-in-test", "ServiceEntry mutual-in", "ServiceEntry mutual-out")
}
