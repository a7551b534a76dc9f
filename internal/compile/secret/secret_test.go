package secret_test

import (
	"slices"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/compile/secret"
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

// TestHolders: a Secret is sent to the proven service accounts that its author names, else to those that MeshConfig names. A proxy that
// proves nothing gets it only by "*", and only on the control plane's own machine.
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
		uid     string // of an API server's object
	}{
		{holders: "", want: nil},
		{holders: "edge", want: []string{"listeners/edge"}},
		{holders: "edge,shop", want: []string{"listeners/edge", "listeners/shop"}},
		{holders: "*", want: []string{"listeners/edge", "listeners/shop", "listeners@here"}},
		{holders: "", mesh: "infra/edge, bank/shop", want: []string{"listeners/edge"}},
		{holders: "", mesh: "infra/*", want: []string{"listeners/edge", "listeners/shop"}},
		{holders: "shop", mesh: "infra/edge", want: []string{"listeners/shop"}},
		{uid: "1", want: []string{"listeners/edge", "listeners/shop"}},
		{uid: "1", holders: "edge", want: []string{"listeners/edge"}},
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
				Stored:     config.Stored{UID: c.uid},
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

// TestWantsElse: a ConfigMap that caCertCredentialName may mean is wanted once it is known that no Secret of its name holds
// authorities, and no longer when one does; proxies wait for it as for a Secret.
func TestWantsElse(t *testing.T) {
	w := compiletest.New(t)
	w.Apply(strings.Replace(gateway, "{mode: SIMPLE, credentialName: web}",
		"{mode: MUTUAL, serverCertificate: /c, privateKey: /k, caCertCredentialName: clients}", 1))
	w.Connect(mesh.Proxy{
		ID: "a", Type: mesh.Router, Namespace: "infra", Labels: "istio=ingress", IP: "10.0.0.1", IPs: "10.0.0.1",
		Standing: mesh.Proven, ServiceAccount: "edge",
	})
	w.Secrets.OnDemand.Set(struct{}{}, struct{}{})
	own, apart := secret.Key{Namespace: "infra", Name: "clients"}, secret.Key{Namespace: "infra", Name: "clients-cacert"}
	inMap := secret.Key{Namespace: "infra", Name: "clients", ConfigMap: true}
	is := func(when string, waits bool, wanted ...secret.Key) {
		t.Helper()
		w.Settle()
		w.Store.Read(func(tx *table.Tx) {
			var got []secret.Key
			for k := range table.All(tx, w.WantedSecrets) {
				got = append(got, k)
			}
			if _, gotWaits := table.Lookup(tx, w.Waiting, "a"); gotWaits != waits || !slices.Equal(got, wanted) {
				t.Errorf("%s: wanted %v, want %v; waits %t, want %t", when, got, wanted, gotWaits, waits)
			}
		})
	}
	put := func(k secret.Key) source.Batch {
		return source.Batch{Set: source.Rows{Objects: []*config.Object{{
			Key: k.Object(), Hash: 1, Credential: &config.Credential{CA: []byte("ca")}, Stored: config.Stored{UID: "1"},
		}}}}
	}
	is("nothing has been looked for", true, own, apart)
	w.Secrets.Read.Set(own, struct{}{})
	is("one of two Secrets has been looked for", true, own, apart)
	w.Secrets.Read.Set(apart, struct{}{})
	is("there is no Secret", true, inMap, own, apart)
	w.Secrets.Read.Set(inMap, struct{}{})
	is("there is no ConfigMap", false, inMap, own, apart)
	w.In.Apply(put(inMap))
	is("there is a ConfigMap", false, inMap, own, apart)
	w.In.Apply(put(own))
	w.Secrets.Read.Delete(inMap)
	is("there is a Secret", false, own, apart)
}

// TestWants: a Secret is wanted while it is named by a layer with a proxy that may have Secrets. The layer's proxies wait until it has been
// looked for, if Secrets are read on demand.
func TestWants(t *testing.T) {
	edge := mesh.Proxy{
		ID: "a", Type: mesh.Router, Namespace: "infra", Labels: "istio=ingress", IP: "10.0.0.1", IPs: "10.0.0.1",
		Standing: mesh.Unproven, ServiceAccount: "edge",
	}
	w := compiletest.New(t)
	web := secret.Key{Namespace: "infra", Name: "web"}
	is := func(when string, wanted, waits bool) {
		t.Helper()
		w.Settle()
		w.Store.Read(func(tx *table.Tx) {
			_, gotWanted := table.Lookup(tx, w.WantedSecrets, web)
			_, gotWaits := table.Lookup(tx, w.Waiting, "a")
			if gotWanted != wanted || gotWaits != waits || table.Len(tx, w.WantedSecrets) > 1 {
				t.Errorf("%s: wanted %t, want %t; waits %t, want %t", when, gotWanted, wanted, gotWaits, waits)
			}
		})
	}
	w.Apply(gateway)
	is("nobody is there", false, false)
	w.Connect(edge)
	is("who is there proved nothing", false, false)
	edge.Standing = mesh.Proven
	w.Connect(edge)
	is("nobody looks for Secrets", true, false)
	w.Secrets.OnDemand.Set(struct{}{}, struct{}{})
	is("it has not been looked for", true, true)
	w.Secrets.Read.Set(web, struct{}{})
	is("it has been looked for", true, false)
	w.Secrets.Read.Delete(web)
	is("nobody keeps it up to date", true, true)
	w.In.Proxies.Delete("a")
	is("the proxy has gone", false, false)
}
