package config

import (
	"errors"
	"reflect"
	"testing"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config/schemas"
	"fairway/internal/mesh"
)

// TestLines: the line of every sort of field, in a document that starts at line 100 of its file.
func TestLines(t *testing.T) {
	const yaml = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: x
  labels: {a.b/c: d,
    e: f}
spec:
  hosts:
  - a.com
  -
    b.com
  http:
    - match:
      - uri: {prefix: /a}
      route:
      - destination:
          host: a.com
        weight: 1
`
	const json = "{\"kind\": \"x\",\n\t\"spec\": {\n\t\t\"http\": [\n\t\t\t{\"name\": \"a\"}]}}"
	for text, fields := range map[string]map[string]int{
		yaml: {
			"": 100, "kind": 101, "metadata.labels[a.b/c]": 104, "metadata.labels.a.b/c": 104, "metadata.labels.e": 105,
			"spec.hosts[0]": 108, "spec.hosts[1]": 110,
			"spec.http[0]": 112, "spec.http[0].match[0].uri.prefix": 113, "spec.http[0].route[0].destination.host": 116,
			"spec.http[0].route[0].weight":  117,
			"spec.http[0].route[0].nothing": 115, "spec.http[7]": 111, "spec.tls": 106, "nothing": 100, "spec[": 106,
		},
		json:   {"": 100, "spec": 101, "spec.http[0].name": 103},
		"a: [": {"a": 0},
	} {
		o := &Object{Ref: mesh.ObjectRef{Line: 100}, Text: []byte(text)}
		for field, want := range fields {
			if got := o.Written().Line(field); got != want {
				t.Errorf("%q: line %d, want %d", field, got, want)
			}
		}
	}
	if p := (&Object{Ref: mesh.ObjectRef{Kind: "K", Line: 100}, Text: []byte(yaml)}).Problem("spec.hosts[0]", "C", mesh.Warning,
		"m", "f"); p.Line != 108 ||
		p.Object.Kind != "K" {
		t.Errorf("%+v", p)
	}
	if got := (&Object{}).Written().Line("spec"); got != 0 {
		t.Errorf("line %d without text", got)
	}
}

// TestMeshConfigOverDefaults: fields that are set count, inside messages too; lists are replaced; other fields have the documented
// defaults.
func TestMeshConfigOverDefaults(t *testing.T) {
	const text = "connectTimeout: 0.5s\naccess_log_file: /dev/stdout\ndefaultServiceExportTo: ['.']\ndefaultConfig:\n  " +
		"concurrency: 3\n  proxyMetadata: {A: b}\n" +
		"extensionProviders:\n- name: z\n  zipkin: {service: z, port: 9411}\n- name: envoy\n  envoyFileAccessLog: {path: " +
		"/x}\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"
	o, problems := newTestDecoder(t).DecodeMeshConfig(Document{File: "mesh.yaml", Line: 1, Text: []byte(text)})
	if o == nil {
		t.Fatal(problems)
	}
	m := Spec[*meshconfig.MeshConfig](o)
	var providers []string
	for _, p := range m.ExtensionProviders {
		providers = append(providers, p.Name)
	}
	got := []any{
		m.ConnectTimeout.AsDuration(),
		m.AccessLogFile,
		m.DefaultServiceExportTo,
		m.DefaultConfig.Concurrency.GetValue(),
		m.DefaultConfig.ProxyAdminPort,
		m.DefaultConfig.ProxyMetadata["A"],
		providers,
		m.OutboundTrafficPolicy.Mode.String(),
		m.RootNamespace,
		m.ProxyListenPort,
		m.EnableAutoMtls.GetValue(),
		o.Key.Kind,
	}
	want := []any{
		500 * time.Millisecond,
		"/dev/stdout",
		[]string{"."},
		int32(3),
		int32(15000),
		"b",
		[]string{"z", "envoy", "prometheus"},
		"REGISTRY_ONLY",
		"istio-system",
		int32(15001),
		true,
		MeshConfig,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
	empty, problems := newTestDecoder(t).DecodeMeshConfig(Document{File: "mesh.yaml", Line: 1})
	if empty == nil || empty.Hash != DefaultMesh().Hash {
		t.Errorf("an empty file is not the defaults: %v", problems)
	}
}

func TestSchemasThatAreNotBuiltIn(t *testing.T) {
	if _, err := schemas.Load("Nothing"); !errors.Is(err, schemas.ErrMissing) {
		t.Error(err)
	}
}

// TestDefaultProviders: default providers that are not set differ from an empty list of them.
func TestDefaultProviders(t *testing.T) {
	d := newTestDecoder(t)
	for text, none := range map[string]bool{"connectTimeout: 5s\n": false, "defaultProviders: {}\n": true} {
		o, problems := d.DecodeMeshConfig(Document{File: "mesh", Line: 1, Text: []byte(text)})
		if o == nil {
			t.Fatal(problems)
		}
		if got := Spec[*meshconfig.MeshConfig](o).DefaultProviders != nil; got != none {
			t.Errorf("%q: %v, want %v", text, got, none)
		}
	}
}
