package deploy_test

import (
	"io/fs"
	"strings"
	"testing"

	"fairway/deploy"
	"fairway/internal/ctl/chart"
	"fairway/internal/golden"
)

// TestGateway: control planes deploy the objects that the chart of gateways has.
func TestGateway(t *testing.T) {
	files, err := fs.Sub(deploy.Chart(), "charts/gateway")
	if err != nil {
		t.Fatal(err)
	}
	c, err := chart.Load(files, "")
	if err != nil {
		t.Fatal(err)
	}
	values, err := c.Choose(chart.Values{
		"name": "gateway", "labels": map[string]any{"gateway.networking.k8s.io/gateway-name": "gateway"},
		"service": map[string]any{"ports": []any{map[string]any{"name": "status-port", "port": 15021, "targetPort": 15021}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	filled, err := c.Fill(values, chart.NewRelease("gateway", "gateways", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := chart.Manifests(filled)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, m := range all {
		out.WriteString("---\n" + m.Text + "\n")
	}
	golden.File(t, "../internal/writes/gateways/base.yaml", out.String())
}
