package webhook

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"fairway/internal/config"
	"fairway/test/rig"
)

// repeated joins n texts, each with its number.
func repeated(n int, each string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(each, "#", fmt.Sprint(i)))
	}
	return b.String()
}

// TestLargestObjects: the largest objects that an API server takes are judged in time that grows only with their size.
func TestLargestObjects(t *testing.T) {
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const networking, security = "networking.istio.io/v1", "security.istio.io/v1"
	dots := strings.Repeat("a.", 700_000)
	for name, o := range map[string]struct{ version, kind, spec string }{
		"hosts": {networking, "VirtualService",
			`{"hosts":[` +
				repeated(120_000, `"a#.b"`) +
				`],"http":[{"route":[{"destination":{"host":"b"}}]}]}`},
		"wildcards": {networking, "VirtualService",
			`{"hosts":[` +
				repeated(100_000, `"*.#.b"`) +
				`],"http":[{"route":[{"destination":{"host":"b"}}]}]}`},
		"dots": {networking, "VirtualService", `{"hosts":["` + dots + `b"],"http":[{"route":[{"destination":{"host":"b"}}]}]}`},
		"dots in sni": {networking, "VirtualService",
			`{"hosts":["b"],"tls":[{"match":[{"sniHosts":["` + dots + `b"]}],"route":[{"destination":{"host":"b"}}]}]}`},
		"server names": {networking, "VirtualService", `{"hosts":[` + repeated(60_000, `"a#.b"`) + `],"tls":[{"match":[{"sniHosts":[` + repeated(60_000, `"c#.d"`) +
			`]}],"route":[{"destination":{"host":"b"}}]}]}`},
		"matches": {networking, "VirtualService", `{"hosts":["b"],"http":[{"match":[` + repeated(40_000, `{"uri":{"exact":"/#"}}`) +
			`],"route":[{"destination":{"host":"b"}}]}]}`},
		"routes": {networking, "VirtualService",
			`{"hosts":["b"],"http":[` +
				repeated(16_000, `{"match":[{"uri":{"exact":"/#"}}],"route":[{"destination":{"host":"b"}}]}`) +
				`]}`},
		"gateways of matches": {networking, "VirtualService", `{"hosts":["b"],"gateways":[` + repeated(200, `"g#"`) + `],"http":[{"match":[` +
			repeated(1000, `{"uri":{"exact":"/#"},"gateways":[`+repeated(200, `"g"`)+`]}`) + `],"route":[{"destination":{"host":"b"}}]}]}`},
		"empty routes":  {networking, "VirtualService", `{"hosts":["b"],"http":[` + repeated(400_000, `{}`) + `]}`},
		"empty subsets": {networking, "DestinationRule", `{"host":"b","subsets":[` + repeated(60_000, `{"name":"s#"}`) + `]}`},
		"twice":         {networking, "DestinationRule", `{"host":"b","subsets":[` + repeated(60_000, `{"name":"s"}`) + `]}`},
		"endpoints": {networking, "ServiceEntry",
			`{"hosts":["b.c"],"ports":[{"number":80,"name":"http"}],"resolution":"STATIC","endpoints":[` +
				repeated(40_000, `{"address":"10.0.0.1"}`) +
				`]}`},
		"addresses": {networking, "ServiceEntry",
			`{"hosts":["b.c"],"ports":[{"number":80,"name":"http"}],"resolution":"STATIC","addresses":[` +
				repeated(80_000, `"10.0.0.#"`) +
				`]}`},
		"entry hosts": {networking, "ServiceEntry",
			`{"hosts":[` +
				repeated(80_000, `"*.a#.c"`) +
				`],"ports":[{"number":80,"name":"http"}],"resolution":"NONE"}`},
		"servers": {networking, "Gateway",
			`{"selector":{"a":"b"},"servers":[` +
				repeated(15_000, `{"port":{"number":80,"name":"p#","protocol":"HTTP"},"hosts":["a#.b"]}`) +
				`]}`},
		"server hosts": {networking, "Gateway",
			`{"selector":{"a":"b"},"servers":[{"port":{"number":80,"name":"p","protocol":"HTTP"},"hosts":[` +
				repeated(120_000, `"a#.b"`) +
				`]}]}`},
		"egress":    {networking, "Sidecar", `{"egress":[{"hosts":[` + repeated(100_000, `"a/b#.c"`) + `]}]}`},
		"listeners": {networking, "Sidecar", `{"egress":[` + repeated(30_000, `{"hosts":["a/b#.c"]}`) + `]}`},
		"ingress": {networking, "Sidecar",
			`{"ingress":[` +
				repeated(15_000, `{"port":{"number":8#,"name":"p#","protocol":"HTTP"},"defaultEndpoint":"127.0.0.1:80"}`) +
				`]}`},
		"patches": {networking, "EnvoyFilter",
			`{"configPatches":[` +
				repeated(15_000, `{"applyTo":"CLUSTER","patch":{"operation":"MERGE","value":{"name":"n#"}}}`) +
				`]}`},
		"paths": {security, "AuthorizationPolicy",
			`{"rules":[{"to":[{"operation":{"paths":[` +
				repeated(120_000, `"/a#"`) +
				`],"notPaths":[` + repeated(20_000, `"/b#"`) + `]}}]}]}`},
		"rules": {security, "AuthorizationPolicy", `{"rules":[` + repeated(30_000, `{"to":[{"operation":{"paths":["/#"]}}]}`) + `]}`},
		"principals": {security, "AuthorizationPolicy",
			`{"rules":[{"from":[{"source":{"principals":[` +
				repeated(60_000, `"a/#"`) +
				`],"notPrincipals":[` + repeated(60_000, `"a/#"`) + `]}}]}]}`},
		"issuers": {security, "RequestAuthentication",
			`{"jwtRules":[` +
				repeated(20_000, `{"issuer":"a#","jwksUri":"https://a.b/#"}`) +
				`]}`},
	} {
		raw := []byte(fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"x","namespace":"shop"},"spec":%s}`, o.version, o.kind, o.spec))
		if !json.Valid(raw) {
			t.Fatalf("%s is not JSON", name)
		}
		q := &admissionv1.AdmissionRequest{}
		q.Object.Raw = raw
		// The race detector takes half of this; work that grows with the square takes minutes.
		if took := rig.CPU(t, func() { validated(t.Context(), decoder, q) }); took > 10*time.Second {
			t.Errorf("%s: %d bytes took %s of a processor", name, len(raw), took)
		}
	}
}
