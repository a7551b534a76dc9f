package gatewayapi_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/compiletest"
	"fairway/internal/compile/gatewayapi/deployed"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/source"
	"fairway/internal/table"
)

var edge = config.Key{Kind: config.KubernetesGateway, Namespace: "shop", Name: "edge"}

// stored stages the objects of a YAML stream as an API server has them.
func stored(w *compiletest.World, text string) {
	all := w.Decode(text)
	for _, o := range all {
		o.Stored = config.Stored{UID: "of " + o.Name}
	}
	w.In.Apply(source.Batch{Set: source.Rows{Objects: all}})
}

// deployment returns what a Gateway is deployed as; nil: it has no row.
func deployment(w *compiletest.World, k config.Key) (d *deployed.Deployment) {
	w.Settle()
	w.Store.Read(func(tx *table.Tx) { d, _ = table.Lookup(tx, w.GatewayAPI.Deployments, k) })
	return d
}

// condition returns a condition of an object's status.
func condition(w *compiletest.World, k config.Key, typ string) (c metav1.Condition) {
	w.Settle()
	w.Store.Read(func(tx *table.Tx) {
		if s, ok := table.Lookup(tx, w.GatewayAPI.Statuses, k); ok {
			if found := meta.FindStatusCondition(s.Conditions, typ); found != nil {
				c = *found
			}
		}
	})
	return c
}

const withParameters = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  gatewayClassName: CLASS
  infrastructure: {parametersRef: REF}
  listeners: [{name: web, port: 80, protocol: HTTP}]
---
`

const parametersMap = `apiVersion: v1
kind: ConfigMap
metadata: {name: own, namespace: shop}
data:
`

// TestParameters: parameters are merged in, those of a Gateway over those of its class. Wrong ones change nothing.
func TestParameters(t *testing.T) {
	const ref = `{group: "", kind: ConfigMap, name: own}`
	for name, c := range map[string]struct {
		ref, data string // no data: there is no ConfigMap
		wrong     string // part of the message; empty: it is accepted
		want      string // overlays, by kind
	}{
		"all keys": {ref, `  deployment: "spec: {replicas: 2}"
  service: "spec: {ports: [{port: 80, nodePort: 30080}]}"
  serviceAccount: "metadata: {annotations: {a: b}}"
  horizontalPodAutoscaler: "spec: {maxReplicas: 3}"
  podDisruptionBudget: "spec: {minAvailable: 2}"
`, "", `{"spec":{"replicas":2}} {"spec":{"maxReplicas":3}} {"spec":{"minAvailable":2}} {"spec":{"ports":[{"nodePort":30080,"port":80}]}} ` +
			`{"metadata":{"annotations":{"a":"b"}}}`},
		"no keys":      {ref, "  {}\n", "", ""},
		"no ConfigMap": {ref, "", "there is no ConfigMap shop/own", ""},
		"another kind": {`{group: example.com, kind: Parameters, name: own}`, "",
			`parameters of kind Parameters and group "example.com" are not supported`, ""},
		"no name":         {`{group: "", kind: ConfigMap, name: certs/own}`, "", `"certs/own" is not the name of a ConfigMap`, ""},
		"an unknown key":  {ref, "  deployments: '{}'\n", `ConfigMap shop/own: key "deployments" has no meaning`, ""},
		"no YAML":         {ref, "  service: '{'\n", "key service: it is not YAML", ""},
		"twice":           {ref, "  service: '{spec: {}, spec: {}}'\n", "key service: it is not YAML", ""},
		"a text":          {ref, "  service: text\n", "it is not a set of fields", ""},
		"an unknown name": {ref, "  deployment: '{spec: {replica: 2}}'\n", `unknown field "spec.replica"`, ""},
		"a wrong type":    {ref, "  deployment: '{spec: {replicas: two}}'\n", "it is no part of a Deployment", ""},
		"no merge key": {ref, "  deployment: '{spec: {template: {spec: {containers: [{resources: {}}]}}}}'\n",
			"it cannot be merged into a Deployment", ""},
		"a directive": {ref, "  deployment: '{spec: {$retainKeys: [replicas]}}'\n", "spec.$retainKeys is not a field", ""},
		"a program": {ref, "  deployment: '{spec: {template: {spec: {containers: [{name: istio-proxy, image: evil}]}}}}'\n",
			"spec.template.spec.containers[].image may not be set by the author of a Gateway", ""},
		"injection": {ref, "  deployment: '{spec: {template: {metadata: {annotations: {sidecar.istio.io/proxyImage: evil}}}}}'\n",
			"spec.template.metadata.annotations[sidecar.istio.io/proxyImage] may not be set", ""},
		"addresses of others": {ref, "  service: '{spec: {externalIPs: [10.0.0.1]}}'\n", "spec.externalIPs may not be set", ""},
	} {
		w := compiletest.InCluster(t, "east")
		stored(w, strings.NewReplacer("CLASS", "istio", "REF", c.ref).Replace(withParameters))
		if c.data != "" {
			stored(w, parametersMap+c.data)
		}
		got := []string{}
		if d := deployment(w, edge); d != nil {
			for _, kind := range []string{"Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget", "Service", "ServiceAccount"} {
				got = append(got, d.Overlays[kind]...)
			}
		} else if c.wrong == "" {
			t.Errorf("%s: it is not deployed", name)
		}
		accepted := condition(w, edge, "Accepted")
		if is := strings.Join(got, " "); is != c.want || !strings.Contains(accepted.Message, c.wrong) ||
			(c.wrong == "") != (accepted.Status == metav1.ConditionTrue) ||
			c.wrong != "" && accepted.Reason != string(gatewayv1.GatewayReasonInvalidParameters) {
			t.Errorf("%s: %s\nand %s: %s", name, is, accepted.Reason, accepted.Message)
		}
		if problems := w.ProblemText(); (c.wrong != "") != strings.Contains(problems, "spec.infrastructure.parametersRef") {
			t.Errorf("%s: problems are %s", name, problems)
		}
	}
}

// TestParametersOfClasses: a class may set what a Gateway may not, and a Gateway's own parameters are merged later. A ConfigMap is read
// only if it is named, and until it has been looked for nothing changes.
func TestParametersOfClasses(t *testing.T) {
	w := compiletest.InCluster(t, "east")
	w.Secrets.OnDemand.Set(struct{}{}, struct{}{})
	const class = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: big}
spec:
  controllerName: fairway/gateway-controller
  parametersRef: {group: "", kind: ConfigMap, name: defaults, namespace: infra}
---
`
	defaults := strings.NewReplacer("own", "defaults", "shop", "infra").Replace(parametersMap)
	stored(w, class+strings.NewReplacer("CLASS", "big", "REF", `{group: "", kind: ConfigMap, name: own}`).Replace(withParameters))
	if deployment(w, edge) != nil {
		t.Error("it is deployed before its parameters have been read")
	}
	wanted := w.Print("gatewayapi/wanted", "")
	if !strings.Contains(wanted, "infra/defaults") || !strings.Contains(wanted, "shop/own") {
		t.Errorf("wanted are %s", wanted)
	}
	stored(w, parametersMap+`  deployment: "spec: {replicas: 2}"
---
`+defaults+`  deployment: "spec: {template: {spec: {hostNetwork: true}}}"
`)
	read := func() {
		w.Secrets.Read.Set(secret.Key{Namespace: "infra", Name: "defaults", ConfigMap: true}, struct{}{})
		w.Secrets.Read.Set(secret.Key{Namespace: "shop", Name: "own", ConfigMap: true}, struct{}{})
	}
	read()
	d := deployment(w, edge)
	const both = `{"spec":{"template":{"spec":{"hostNetwork":true}}}} {"spec":{"replicas":2}}`
	if d == nil || strings.Join(d.Overlays["Deployment"], " ") != both {
		t.Errorf("it is deployed as %+v", d)
	}
	if c := condition(w, config.Key{Kind: config.GatewayClass, Name: "big"}, "Accepted"); c.Status != metav1.ConditionTrue {
		t.Errorf("the class is %+v", c)
	}
	stored(w, parametersMap+`  deployment: "spec: {replicas: 3}"
`)
	if d := deployment(w, edge); d == nil || d.Overlays["Deployment"][1] != `{"spec":{"replicas":3}}` {
		t.Errorf("after a change it is deployed as %+v", d)
	}
	w.Delete("ConfigMap", "infra", "defaults")
	if c := condition(w, config.Key{Kind: config.GatewayClass, Name: "big"}, "Accepted"); c.Reason != "InvalidParameters" {
		t.Errorf("without its parameters the class is %+v", c)
	}
	c := condition(w, edge, "Accepted")
	if c.Reason != "InvalidParameters" || !strings.HasPrefix(c.Message, "parameters of GatewayClass big: ") {
		t.Errorf("without those of its class, the Gateway is %+v", c)
	}
}
