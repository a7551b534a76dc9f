package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/envoy/bootstrap"
	"fairway/internal/mesh"
)

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
			"POD_NAME": "reviews-1", "POD_NAMESPACE": "shop", "INSTANCE_IP": "10.1.1.1", "SERVICE_ACCOUNT": "sa",
			"ISTIO_META_CLUSTER_ID": "c1", "ISTIO_META_DNS_CAPTURE": "true", "ISTIO_METAJSON_MORE": `{"NETWORK":"n1"}`,
			"PROXY_CONFIG": "{discoveryAddress: own:2, concurrency: 3, proxyMetadata: {ISTIO_META_HTTP10: \"1\", ISTIO_META_CLUSTER_ID: lower}}",
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
		"NAME": "reviews-1", "NAMESPACE": "shop", "INSTANCE_IPS": "10.1.1.1,fd00::1", "SERVICE_ACCOUNT": "sa", "CLUSTER_ID": "c1", "DNS_CAPTURE": "true",
		"NETWORK": "n1", "HTTP10": "1", "MESH_ID": "m1", "INTERCEPTION_MODE": "REDIRECT", "WORKLOAD_NAME": "reviews", "ISTIO_VERSION": version,
		"LABELS": map[string]any{"app": "reviews", "version": "v1", "istio-locality": "eu.eu-1"},
	}
	config, _ := n.Metadata["PROXY_CONFIG"].(map[string]any)
	delete(n.Metadata, "PROXY_CONFIG")
	if d := cmp.Diff(want, n.Metadata); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
	if config["discoveryAddress"] != "own:2" || n.Cluster != "reviews.shop" || n.Locality != (mesh.Locality{Region: "eu", Zone: "eu-1"}) {
		t.Errorf("PROXY_CONFIG %v, cluster %q, locality %v", config, n.Cluster, n.Locality)
	}
	if o.Bootstrap.Discovery != (bootstrap.HostPort{Host: "own", Port: 2}) || o.Concurrency != 3 || o.Shutdown.Limit != 9*time.Second || o.Bootstrap.Prometheus.Port != 15090 || o.Bootstrap.Admin.Port != 15000 {
		t.Errorf("%+v", o)
	}
}

func TestFlagsWin(t *testing.T) {
	f := Flags{
		Type: "router", Domain: "d", ServiceCluster: "sc", DiscoveryAddress: "[::1]:9", Envoy: "/e", ConfigPath: "/c", Locality: "a/b/c",
		ProxyLogLevel: "debug", AdminPort: 7, PrometheusPort: 0, Concurrency: 0, BaseID: 0,
	}
	o, err := Resolve(f, Environment{Hostname: "h", Vars: map[string]string{
		"INSTANCE_IP": "127.0.0.9", "ENVOY_PROMETHEUS_PORT": "1", "PROXY_CONFIG": "{concurrency: 3, serviceCluster: x, binaryPath: /x, configPath: /x, proxyAdminPort: 1}",
		"TERMINATION_DRAIN_DURATION_SECONDS": "3",
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := o.Bootstrap
	if p.Node.ID() != "router~127.0.0.9~h.default~d" || p.Node.Cluster != "sc" || p.Discovery.Host != "::1" || p.Admin.Port != 7 || p.Prometheus.Port != 0 ||
		p.Node.Locality != (mesh.Locality{Region: "a", Zone: "b", SubZone: "c"}) || p.Node.Metadata["INTERCEPTION_MODE"] != nil {
		t.Errorf("%+v", p)
	}
	if o.Envoy != "/e" || o.ConfigDir != "/c" || o.LogLevel != "debug" || o.Concurrency != 0 || o.Restarts.BaseID == nil || o.Shutdown.Limit != 3*time.Second {
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
		"TERMINATION_DRAIN_DURATION": func(_ *Flags, e *Environment) { e.Vars["TERMINATION_DRAIN_DURATION_SECONDS"] = "-1" },
	} {
		f, e := unset(), Environment{Hostname: "h", Vars: map[string]string{}}
		change(&f, &e)
		_, err := Resolve(f, e)
		if ExitCode(err) != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v (code %d), want code 2 and %q", err, ExitCode(err), want)
		}
	}
}

func TestCommandLineMistakes(t *testing.T) {
	for _, args := range []string{"prxy", "proxy ghost", "proxy sidecar router", "proxy --nope", "proxy --adminPort=x", "proxy --log_output_level=loud"} {
		c := NewCommand(newBuffer(), newBuffer())
		c.SetArgs(strings.Fields(args))
		if err := c.ExecuteContext(t.Context()); ExitCode(err) != 2 {
			t.Errorf("%s: code %d (%v), want 2", args, ExitCode(err), err)
		}
	}
}
