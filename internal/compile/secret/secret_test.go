package secret_test

import (
	"slices"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

const gateway = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: infra}
spec:
  selector: {istio: ingress}
  servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE, credentialName: web}}]
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: edge, namespace: infra}
spec: {metadata: {labels: {istio: ingress}}, template: {serviceAccount: edge}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: shop, namespace: infra}
spec: {metadata: {labels: {istio: ingress}}, template: {serviceAccount: shop}}
`

// TestHolders: a Secret goes to the proven service accounts that its author names, else to those that MeshConfig does;
// what proves nothing gets it by "*" alone, and only on the control plane's own machine.
func TestHolders(t *testing.T) {
	edge := mesh.Proxy{
		ID:             "a",
		Type:           mesh.Router,
		Namespace:      "infra",
		Labels:         "istio=ingress",
		IP:             "10.0.0.1",
		IPs:            "10.0.0.1",
		Standing:       mesh.Proven,
		ServiceAccount: "edge",
	}
	liar, here, stranger := edge, edge, edge
	liar.ID, liar.ServiceAccount = "b", "shop"
	here.ID, here.Standing = "c", mesh.Here
	stranger.ID, stranger.Standing = "d", mesh.Unproven
	for _, c := range []struct {
		holders config.Holders
		mesh    string
		want    []string
	}{
		{holders: "", want: nil},
		{holders: "edge", want: []string{"listeners/edge"}},
		{holders: "edge,shop", want: []string{"listeners/edge", "listeners/shop"}},
		{holders: "*", want: []string{"listeners/edge", "listeners/shop", "listeners@here"}},
		{holders: "", mesh: "infra/edge, bank/shop", want: []string{"listeners/edge"}},
		{holders: "", mesh: "infra/*", want: []string{"listeners/edge", "listeners/shop"}},
		{holders: "shop", mesh: "infra/edge", want: []string{"listeners/shop"}},
	} {
		w := compiletest.New(t)
		w.Apply(gateway)
		if c.mesh != "" {
			w.Apply("kind: MeshConfig\nspec: {defaultConfig: {proxyMetadata: {FAIRWAY_SECRET_SERVICE_ACCOUNTS: \"" + c.mesh + "\"}}}\n")
		}
		w.In.Apply(source.Batch{Set: source.Rows{Objects: []*config.Object{
			{
				Key: config.Key{
					Kind:      config.Secret,
					Namespace: "infra",
					Name:      "web",
				},
				Hash:       1,
				Credential: &config.Credential{Chain: []byte("chain"), Holders: c.holders},
				Ref:        mesh.ObjectRef{Kind: "Secret", Namespace: "infra", Name: "web"},
			},
		}}})
		w.Connect(edge, liar, here, stranger)
		w.Settle()
		var got []string
		refused := 0
		w.Store.Read(func(tx *table.Tx) {
			for k := range table.All(tx, w.Out.Resources[xdstype.Secrets][2]) {
				got = append(got, k.Shelf.Part)
			}
			for n := range w.Store.Notes(tx) {
				if p, ok := n.Value.(mesh.Problem); ok && p.Code == "HolderNotNamed" && p.Object.Name == "web" &&
					strings.Contains(p.Fix, config.HoldersAnnotation) {
					refused++
				}
			}
		})
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("holders %q, mesh %q: it stands on %q, want %q", c.holders, c.mesh, got, c.want)
		}
		if want := 3 - len(c.want); refused != want {
			t.Errorf("holders %q, mesh %q: %d are told to the author as not named, want %d", c.holders, c.mesh, refused, want)
		}
	}
}
