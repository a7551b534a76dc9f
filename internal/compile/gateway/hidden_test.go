package gateway_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
	"fairway/test/rig"
)

// TestTablesHideKeys: no table prints a key (law 9: tables print themselves), nor does any problem or page of objects;
// and the gateway is sent it.
func TestTablesHideKeys(t *testing.T) {
	certPEM, keyPEM, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString
	w := compiletest.New(t)
	w.Apply(`apiVersion: v1
kind: Secret
metadata: {name: web, namespace: infra, annotations: {fairway/service-accounts: edge, last: "` + encoded(keyPEM) + `"}}
type: kubernetes.io/tls
data: {tls.crt: ` + encoded(certPEM) + `, tls.key: ` + encoded(keyPEM) + `}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: infra}
spec:
  selector: {istio: ingress}
  servers:
  - {port: {number: 443, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE, credentialName: web}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: edge, namespace: infra}
spec: {metadata: {labels: {istio: ingress}}, template: {serviceAccount: edge}}
`)
	w.Connect(
		mesh.Proxy{
			ID:             "router~1~g.infra~x",
			Name:           "g",
			Namespace:      "infra",
			IP:             "10.0.0.1",
			IPs:            "10.0.0.1",
			Type:           mesh.Router,
			Labels:         "istio=ingress",
			Standing:       mesh.Proven,
			ServiceAccount: "edge",
		},
	)
	w.Settle()
	sent := false
	var out strings.Builder
	w.Store.Read(func(tx *table.Tx) {
		for _, published := range w.Out.Resources[xdstype.Secrets] {
			for k, e := range table.All(tx, published) {
				sent = sent || k.Name == "kubernetes://web" && strings.Contains(string(e.Body), string(keyPEM))
			}
		}
		for _, info := range tx.Tables() {
			if err := w.Store.Print(&out, tx, info.Name, ""); err != nil {
				t.Fatal(err)
			}
		}
	})
	if !sent {
		t.Error("the gateway gets no key")
	}
	for _, o := range w.Objects() {
		fmt.Fprintf(&out, "%v %+v %s\n", o, *o, o.Spec)
	}
	fmt.Fprintln(&out, w.ProblemText())
	body := strings.Split(string(keyPEM), "\n")[1]
	private, _ := pem.Decode(keyPEM)
	for _, form := range []string{
		body, encoded(keyPEM)[60:100], strings.Trim(fmt.Sprintf("%d", []byte(body)), "[]"),
		strings.Trim(fmt.Sprintf("%d", private.Bytes), "[]"),
	} {
		if i := strings.Index(out.String(), form); i >= 0 {
			t.Errorf("a key is printed: …%s…", out.String()[max(0, i-300):i+20])
		}
	}
}
