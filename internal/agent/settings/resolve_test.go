package settings

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/envoy/bootstrap"
	"fairway/internal/mesh"
)

// isMistake reports whether an error is one of the user's.
func isMistake(err error) bool {
	var bad *UsageError
	return errors.As(err, &bad)
}

func unset() Flags {
	return Flags{StatusPort: -1, ReadyPort: -1, PrometheusPort: -1, Concurrency: -1, BaseID: -1, RestartBudget: -1}
}

func TestResolveAsIstioProxyDoes(t *testing.T) {
	dir := t.TempDir()
	labels := filepath.Join(dir, "labels")
	os.WriteFile(labels, []byte("app=\"reviews\"\nversion=\"v1\"\nistio-locality=\"eu.eu-1\"\n"), 0o644)
	meshFile := filepath.Join(dir, "mesh")
	os.WriteFile(meshFile, []byte("defaultConfig:\n  discoveryAddress: mesh:1\n  meshId: m1\n  terminationDrainDuration: 9s\n"), 0o644)
	f := unset()
	f.MeshConfig, f.Type = meshFile, "sidecar"
	o, err := Resolve(f, Environment{
		Hostname: "host", Addresses: []string{"10.1.1.1", "fd00::1"}, LabelsFile: labels,
		Vars: map[string]string{
			"POD_NAME":               "reviews-1",
			"POD_NAMESPACE":          "shop",
			"INSTANCE_IP":            "10.1.1.1",
			"SERVICE_ACCOUNT":        "sa",
			"ISTIO_META_CLUSTER_ID":  "c1",
			"ISTIO_META_DNS_CAPTURE": "true",
			"ISTIO_METAJSON_MORE":    `{"NETWORK":"n1"}`,
			"PROXY_CONFIG": "{discoveryAddress: own:2, concurrency: 3, proxyMetadata: {ISTIO_META_HTTP10: " +
				"\"1\", ISTIO_META_CLUSTER_ID: lower}}",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n := o.Bootstrap.Node
	if got, want := n.ID(), "sidecar~10.1.1.1~reviews-1.shop~shop.svc.cluster.local"; got != want {
		t.Errorf("node id %q, want %q", got, want)
	}
	want := map[string]any{
		"NAME":                  "reviews-1",
		"NAMESPACE":             "shop",
		"INSTANCE_IPS":          "10.1.1.1,fd00::1",
		"SERVICE_ACCOUNT":       "sa",
		"CLUSTER_ID":            "c1",
		"DNS_CAPTURE":           "true",
		"NETWORK":               "n1",
		"HTTP10":                "1",
		"MESH_ID":               "m1",
		"INTERCEPTION_MODE":     "REDIRECT",
		"WORKLOAD_NAME":         "reviews",
		"ISTIO_VERSION":         version,
		"ENVOY_STATUS_PORT":     15021.0,
		"ENVOY_PROMETHEUS_PORT": 15090.0,
		"PILOT_SAN":             []any{"own"},
		"LABELS":                map[string]any{"app": "reviews", "version": "v1", "istio-locality": "eu.eu-1"},
	}
	config, _ := n.Metadata["PROXY_CONFIG"].(map[string]any)
	delete(n.Metadata, "PROXY_CONFIG")
	if d := cmp.Diff(want, n.Metadata); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
	if config["discoveryAddress"] != "own:2" || n.Cluster != "reviews.shop" || n.Locality != (mesh.Locality{Region: "eu", Zone: "eu-1"}) {
		t.Errorf("PROXY_CONFIG %v, cluster %q, locality %v", config, n.Cluster, n.Locality)
	}
	if plan, _, err := o.Plan(); err != nil || !slices.Equal(plan.Env, []string{
		"INSTANCE_IP=10.1.1.1",
		"POD_NAME=reviews-1",
		"POD_NAMESPACE=shop",
		"SERVICE_ACCOUNT=sa",
		"FAIRWAY_CALLER=reviews;reviews;v1;reviews;v1;c1",
		"OTEL_RESOURCE_ATTRIBUTES=service.name=reviews.shop",
		"DD_SERVICE=reviews.shop",
	}) {
		t.Errorf("Envoy's environment is %q, %v", plan.Env, err)
	}
	if o.Bootstrap.Discovery != (bootstrap.HostPort{Host: "own", Port: 2}) || o.Concurrency != 3 || o.Shutdown.Limit != 9*time.Second ||
		o.Bootstrap.Prometheus.Port != 15090 ||
		o.Bootstrap.Admin.Port != 15000 {
		t.Errorf("%+v", o)
	}
}

func TestFlagsWin(t *testing.T) {
	f := Flags{
		Type: "router", Domain: "d", ServiceCluster: "sc", DiscoveryAddress: "[::1]:9", Envoy: "/e", ConfigPath: "/c", Locality: "a/b/c",
		ProxyLogLevel: "debug", AdminPort: 7, PrometheusPort: 0, Concurrency: 0, BaseID: 0,
	}
	o, err := Resolve(f, Environment{Hostname: "h", Vars: map[string]string{
		"INSTANCE_IP":                        "127.0.0.9",
		"ENVOY_PROMETHEUS_PORT":              "1",
		"PROXY_CONFIG":                       "{concurrency: 3, serviceCluster: x, binaryPath: /x, configPath: /x, proxyAdminPort: 1}",
		"TERMINATION_DRAIN_DURATION_SECONDS": "3",
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := o.Bootstrap
	if p.Node.ID() != "router~127.0.0.9~h.default~d" || p.Node.Cluster != "sc" || p.Discovery.Host != "::1" || p.Admin.Port != 7 ||
		p.Prometheus.Port != 0 ||
		p.Node.Locality != (mesh.Locality{Region: "a", Zone: "b", SubZone: "c"}) ||
		p.Node.Metadata["INTERCEPTION_MODE"] != nil {
		t.Errorf("%+v", p)
	}
	if o.Envoy != "/e" || o.ConfigDir != "/c" || o.LogLevel != "debug" || o.Concurrency != 0 || o.Restarts.BaseID == nil ||
		o.Shutdown.Limit != 3*time.Second {
		t.Errorf("%+v", o)
	}
}

func TestUserMistakes(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	os.WriteFile(bad, []byte("app=reviews\n"), 0o644)
	for want, change := range map[string]func(*Flags, *Environment){
		"ghost":                      func(f *Flags, _ *Environment) { f.Type = "ghost" },
		"--discoveryAddress":         func(f *Flags, _ *Environment) { f.DiscoveryAddress = "pilot" },
		"PROXY_CONFIG discovery":     func(_ *Flags, e *Environment) { e.Vars["PROXY_CONFIG"] = "discoveryAddress: x:0" },
		"PROXY_CONFIG statusPort":    func(_ *Flags, e *Environment) { e.Vars["PROXY_CONFIG"] = "statusPort: 70000" },
		"PROXY_CONFIG: ":             func(_ *Flags, e *Environment) { e.Vars["PROXY_CONFIG"] = "concurrency: many" },
		"ISTIO_METAJSON_X":           func(_ *Flags, e *Environment) { e.Vars["ISTIO_METAJSON_X"] = "{" },
		"INSTANCE_IP":                func(_ *Flags, e *Environment) { e.Vars["INSTANCE_IP"] = "here" },
		"INTERCEPTION_MODE":          func(_ *Flags, e *Environment) { e.Vars["ISTIO_META_INTERCEPTION_MODE"] = "MAGIC" },
		"POD_NAME":                   func(_ *Flags, e *Environment) { e.Vars["POD_NAME"] = "a~b" },
		bad + ":1":                   func(_ *Flags, e *Environment) { e.LabelsFile = bad },
		"more parts":                 func(f *Flags, _ *Environment) { f.Locality = "a/b/c/d" },
		"mesh configuration " + bad:  func(f *Flags, _ *Environment) { f.MeshConfig = bad },
		"ISTIO_BOOTSTRAP_OVERRIDE":   func(_ *Flags, e *Environment) { e.Vars["ISTIO_BOOTSTRAP_OVERRIDE"] = bad + "2" },
		"ENVOY_PROMETHEUS_PORT":      func(_ *Flags, e *Environment) { e.Vars["ENVOY_PROMETHEUS_PORT"] = "99999" },
		"MINIMUM_DRAIN_DURATION":     func(_ *Flags, e *Environment) { e.Vars["MINIMUM_DRAIN_DURATION"] = "long" },
		"EXIT_ON_ZERO_ACTIVE":        func(_ *Flags, e *Environment) { e.Vars["EXIT_ON_ZERO_ACTIVE_CONNECTIONS"] = "maybe" },
		"ISTIO_CPU_LIMIT":            func(_ *Flags, e *Environment) { e.Vars["ISTIO_CPU_LIMIT"] = "all" },
		"STATUS_PORT":                func(_ *Flags, e *Environment) { e.Vars["STATUS_PORT"] = "x" },
		"--drainStrategy":            func(f *Flags, _ *Environment) { f.DrainStrategy = "slowly" },
		"TERMINATION_DRAIN_DURATION": func(_ *Flags, e *Environment) { e.Vars["TERMINATION_DRAIN_DURATION_SECONDS"] = "-1" },
	} {
		f, e := unset(), Environment{Hostname: "h", Vars: map[string]string{}}
		change(&f, &e)
		_, err := Resolve(f, e)
		if !isMistake(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want a mistake with %q", err, want)
		}
	}
}

// TestWrongFieldsAreNamed: for a value of a wrong type, the error has the field's path, and what it accepts.
func TestWrongFieldsAreNamed(t *testing.T) {
	for config, want := range map[string]string{
		"concurrency: many":                           `PROXY_CONFIG: concurrency: want a whole number that fits int32, not "many"`,
		"drainDuration: 5":                            `PROXY_CONFIG: drainDuration: want a time such as "5s", not 5`,
		"{serviceCluster: [a]}":                       `PROXY_CONFIG: serviceCluster: want a text, not ["a"]`,
		"{proxyMetadata: {A: 1}}":                     `PROXY_CONFIG: proxyMetadata: want an object of texts, not {"A":1}`,
		"{proxyMetadata: text}":                       `PROXY_CONFIG: proxyMetadata: want an object of texts, not "text"`,
		"{tracing: {zipkin: {address: 7}}}":           `PROXY_CONFIG: tracing.zipkin.address: want a text, not 7`,
		"{tracing: zipkin}":                           `PROXY_CONFIG: tracing: want an object with fields of Tracing, not "zipkin"`,
		"{tracing: {sampling: half}}":                 `PROXY_CONFIG: tracing.sampling: want a number, not "half"`,
		"{holdApplicationUntilProxyStarts: so}":       `PROXY_CONFIG: holdApplicationUntilProxyStarts: want true or false, not "so"`,
		"{proxyStatsMatcher: {inclusionPrefixes: a}}": `PROXY_CONFIG: proxyStatsMatcher.inclusionPrefixes: want a list, not "a"`,
		"{readinessProbe: {httpGet: {port: 1, httpHeaders: [{name: a}, " +
			"{name: 1}]}}}": `PROXY_CONFIG: readinessProbe.httpGet.httpHeaders[1].name: want a text, not 1`,
		"[a, b]": `PROXY_CONFIG: want an object with fields of ProxyConfig, not ["a","b"]`,
	} {
		_, err := Resolve(unset(), Environment{Hostname: "h", Vars: map[string]string{"PROXY_CONFIG": config}})
		if !isMistake(err) || err.Error() != want {
			t.Errorf("%s: error %v, want the mistake %s", config, err, want)
		}
	}
}

// TestUnknownFieldsAreSaid: unknown fields are skipped in every source of a ProxyConfig, and reported with their place. Other
// fields of MeshConfig are not validated by the agent.
func TestUnknownFieldsAreSaid(t *testing.T) {
	dir := t.TempDir()
	e := Environment{
		Hostname: "h",
		Vars: map[string]string{
			"PROXY_CONFIG": "{concurency: 3, tracing: {zipkin: {adress: a, address: 'b:1'}}, proxy_admin_port: 7, " +
				"brandNew: {a: 1}, interceptionMode: MAGIC}",
		},
	}
	f := unset()
	f.MeshConfig, e.AnnotationsFile = filepath.Join(dir, "mesh"), filepath.Join(dir, "annotations")
	os.WriteFile(f.MeshConfig, []byte("brandNew: 1\ndefaultConfig: {drainDuratoin: 5s}\n"), 0o644)
	os.WriteFile(e.AnnotationsFile, []byte(`proxy.istio.io/config="{statusport: 1}"`+"\n"), 0o644)
	o, err := Resolve(f, e)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"mesh configuration " + f.MeshConfig + ": defaultConfig.drainDuratoin (did you mean drainDuration?)",
		"PROXY_CONFIG: brandNew",
		"PROXY_CONFIG: concurency (did you mean concurrency?)",
		`PROXY_CONFIG: interceptionMode: want one of REDIRECT, TPROXY, NONE, not "MAGIC"`,
		"PROXY_CONFIG: tracing.zipkin.adress (did you mean address?)",
		"annotation proxy.istio.io/config: statusport (did you mean statusPort?)",
	}
	if d := cmp.Diff(want, o.Unknown); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if o.Bootstrap.Admin.Port != 7 {
		t.Errorf("what is known does not count: %+v", o.Bootstrap.Admin)
	}
}

// TestTheAnnotationWins: it can change while the workload runs; what it does not say stays as PROXY_CONFIG and the mesh have it.
func TestTheAnnotationWins(t *testing.T) {
	dir := t.TempDir()
	f, e := unset(), Environment{
		Hostname:        "h",
		AnnotationsFile: filepath.Join(dir, "annotations"),
		LabelsFile:      filepath.Join(dir, "labels"),
		Vars: map[string]string{
			"PROXY_CONFIG": "{concurrency: 3, statusPort: 7, proxyMetadata: {ISTIO_META_A: env, ISTIO_META_B: env}, " +
				"proxyStatsMatcher: {inclusionPrefixes: [env]}}",
		},
	}
	f.MeshConfig = filepath.Join(dir, "mesh")
	os.WriteFile(f.MeshConfig,
		[]byte("defaultConfig: {concurrency: 9, drainDuration: 7s, proxyStatsMatcher: {inclusionPrefixes: [mesh, more]}}"), 0o600)
	os.WriteFile(e.AnnotationsFile, []byte(`proxy.istio.io/config="concurrency: 4\nproxyMetadata: {ISTIO_META_B: own}"`+"\n"+
		`sidecar.istio.io/statsInclusionPrefixes="annotated"`+"\n"+`sidecar.istio.io/statsInclusionRegexps="x.*,y.*"`+"\n"), 0o600)
	os.WriteFile(e.LabelsFile, []byte(`topology.istio.io/network="n1"`+"\n"), 0o600)
	o, err := Resolve(f, e)
	if err != nil {
		t.Fatal(err)
	}
	meta := o.Bootstrap.Node.Metadata
	if o.Concurrency != 4 || o.Bootstrap.Status.Port != 7 || o.Restarts.Drain != 7*time.Second || meta["A"] != "env" ||
		meta["B"] != "own" ||
		meta["NETWORK"] != "n1" {
		t.Errorf("%+v, metadata %v", o, meta)
	}
	if got := o.Bootstrap.Stats.Prefixes; len(got) != 1 || got[0] != "env" {
		t.Errorf("a list is replaced, not added to: %v", got)
	}
	if got := o.Bootstrap.Stats.Regexps; !slices.Equal(got, []string{"x.*", "y.*"}) {
		t.Errorf("statistics that only an annotation names: %v", got)
	}
	for _, file := range []string{f.MeshConfig, e.LabelsFile, e.AnnotationsFile} {
		if !slices.Contains(o.Watched, file) {
			t.Errorf("%s is not watched: %v", file, o.Watched)
		}
	}
}

func TestThreadsByLimits(t *testing.T) {
	machine := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")}, "sys/fs/cgroup/cpu.max": {Data: []byte("250000 100000\n")}}
	for want, vars := range map[int]map[string]string{
		3: {}, 5: {"ISTIO_CPU_LIMIT": "5"}, 7: {"ISTIO_CPU_LIMIT": "5", "PROXY_CONFIG": "concurrency: 7"},
		0: {"PROXY_CONFIG": "concurrency: 0"},
	} {
		o, err := Resolve(unset(), Environment{Hostname: "h", Vars: vars, Machine: machine})
		if err != nil || o.Concurrency != want {
			t.Errorf("%v: %d threads, want %d (%v)", vars, o.Concurrency, want, err)
		}
	}
}

// TestTimes: parent-shutdown > drain > longest request, whatever the flags are.
func TestTimes(t *testing.T) {
	for _, f := range []Flags{
		{},
		{DrainDuration: 3 * time.Second},
		{LongestRequest: time.Minute},
		{DrainDuration: time.Second, LongestRequest: 10 * time.Second, ParentShutdownDuration: time.Second},
	} {
		f.BaseID, f.Concurrency, f.RestartBudget, f.PrometheusPort, f.Envoy = -1, -1, -1, -1, "sh"
		o, err := Resolve(f, Environment{Hostname: "h"})
		if err != nil {
			t.Fatal(err)
		}
		if o, err = o.Complete(); err != nil {
			t.Fatal(err)
		}
		if r := o.Restarts; r.Drain <= r.Longest || r.ParentShutdown <= r.Drain && f.ParentShutdownDuration == 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestRestarts: how many crashes in a row are answered by a new start.
func TestRestarts(t *testing.T) {
	for _, c := range []struct {
		name    string
		budget  int
		forever bool
		want    int
		wrong   bool
	}{
		{"the usual", -1, false, 0, false},
		{"some", 3, false, 3, false},
		{"none", 0, false, -1, false},
		{"all", -1, true, math.MaxInt, false},
		{"some and all", 3, true, 0, true},
	} {
		f := unset()
		f.RestartBudget, f.RestartForever = c.budget, c.forever
		o, err := Resolve(f, Environment{Hostname: "h"})
		if (err != nil) != c.wrong || err == nil && o.Restarts.Budget != c.want {
			t.Errorf("%s: budget %d, error %v; want %d", c.name, o.Restarts.Budget, err, c.want)
		}
	}
}
