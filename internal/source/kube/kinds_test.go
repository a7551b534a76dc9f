package kube

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"fairway/internal/config"
)

// TestWithoutGatewayAPI: no kind of the Gateway API is read, and all others are.
func TestWithoutGatewayAPI(t *testing.T) {
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	read := func(without bool) (all []string) {
		s, err := New(Options{Cluster: "east", Config: &rest.Config{Host: "127.0.0.1:1"}, Decoder: d, WithoutGatewayAPI: without})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range s.kinds {
			all = append(all, k.name)
		}
		return all
	}
	all, rest := read(false), strings.Join(read(true), " ")
	if less := len(all) - len(strings.Fields(rest)); less != len(config.GatewayKinds()) || strings.Contains(rest, "HTTPRoute") {
		t.Errorf("read are %s: %d kinds fewer, want %d", rest, less, len(config.GatewayKinds()))
	}
}
