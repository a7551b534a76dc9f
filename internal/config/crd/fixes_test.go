package crd

import (
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"fairway/internal/config/schemas"
)

// TestRulesOfGatewaysHaveFixes: every rule of the Gateway API's schemas, but those on changes, has a fix.
func TestRulesOfGatewaysHaveFixes(t *testing.T) {
	found := 0
	for _, kind := range []string{
		"GatewayClass", "Gateway.gateway.networking.k8s.io", "ListenerSet", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute",
		"ReferenceGrant", "BackendTLSPolicy",
	} {
		s, err := schemas.Load(kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range messagesOf(t, s.OpenAPI) {
			if found++; remedyOf(message) == "" && message != "field is immutable" {
				t.Errorf("%s: no fix for %q", kind, message)
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d rules were found", found)
	}
}

// messagesOf lists the messages of all rules of a schema.
func messagesOf(t *testing.T, s *apiextensionsv1.JSONSchemaProps) (out []string) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			rules, _ := v["x-kubernetes-validations"].([]any)
			for _, r := range rules {
				if message, is := r.(map[string]any)["message"].(string); is {
					out = append(out, message)
				}
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(tree)
	return out
}
