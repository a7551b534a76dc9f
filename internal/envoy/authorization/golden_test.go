package authorization_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	securityv1beta1 "istio.io/api/security/v1beta1"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy"
	"fairway/internal/envoy/authorization"
	"fairway/internal/golden"
)

// parse parses a policy; its name and action are those of the document.
func parse(t testing.TB, text string) authorization.Policy {
	t.Helper()
	var doc struct {
		Name   string
		DryRun bool
		Spec   map[string]any
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(doc.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = yaml.YAMLToJSON(raw); err != nil {
		t.Fatal(err)
	}
	spec := &securityv1beta1.AuthorizationPolicy{}
	if err := protojson.Unmarshal(raw, spec); err != nil {
		t.Fatal(err)
	}
	return authorization.Policy{Namespace: "shop", Name: doc.Name, DryRun: doc.DryRun, Spec: spec}
}

// TestGoldens: testdata/NAME.yaml holds policies; NAME.golden.yaml the filters of requests, then those of connections.
func TestGoldens(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var list []*authorization.Compiled
			ask := authorizerOf(t, name)
			var out strings.Builder
			for doc := range strings.SplitSeq(string(text), "\n---\n") {
				c := authorization.Compile(parse(t, doc), trust)
				for _, f := range c.Faults {
					out.WriteString("# " + f.Field + ": " + f.Why + "\n")
				}
				for _, f := range c.OfRequests {
					out.WriteString("# of requests: " + f.Field + "\n")
				}
				list = append(list, c)
			}
			for _, f := range authorization.Requests(list, ask) {
				show(t, &out, f)
			}
			for _, f := range authorization.Connections(list, ask) {
				show(t, &out, f)
			}
			golden.File(t, filepath.Join("testdata", name+".golden.yaml"), out.String())
		})
	}
}

// authorizerOf returns the provider in testdata/NAME.provider.yaml; the zero value if there is none.
func authorizerOf(t testing.TB, name string) authorization.Authorizer {
	text, err := os.ReadFile(filepath.Join("testdata", name+".provider.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return authorization.Authorizer{}
	}
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		t.Fatal(err)
	}
	provider := &meshconfig.MeshConfig_ExtensionProvider{}
	if err := protojson.Unmarshal(text, provider); err != nil {
		t.Fatal(err)
	}
	service, port, ok := authorization.Service(provider)
	if !ok {
		t.Fatalf("%v is not an authorizer", provider)
	}
	out, err := authorization.NewAuthorizer(provider, "outbound|"+number(port)+"||"+service, service)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBadProviders: what cannot be carried out of a provider makes none of it.
func TestBadProviders(t *testing.T) {
	for _, bad := range []*meshconfig.MeshConfig_ExtensionProvider{
		{Name: "none"},
		{Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzHttp{
			EnvoyExtAuthzHttp: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider{StatusOnError: "nine"},
		}},
		{Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzHttp{
			EnvoyExtAuthzHttp: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider{PathPrefix: "check"},
		}},
		{Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzGrpc{
			EnvoyExtAuthzGrpc: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider{StatusOnError: "999"},
		}},
		{Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzGrpc{
			EnvoyExtAuthzGrpc: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider{
				IncludeRequestBodyInCheck: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody{},
			},
		}},
	} {
		if got, err := authorization.NewAuthorizer(bad, "c", "h"); err == nil || got != (authorization.Authorizer{}) {
			t.Errorf("%v makes %+v", bad, got)
		}
	}
}

func show(t testing.TB, out *strings.Builder, m envoy.Message) {
	if err := envoy.Encode(m).Err; err != nil {
		t.Errorf("Envoy would refuse it: %v", err)
	}
	text, err := protojson.Marshal(m.(proto.Message))
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.JSONToYAML(text); err != nil {
		t.Fatal(err)
	}
	out.WriteString("---\n")
	out.Write(text)
}
