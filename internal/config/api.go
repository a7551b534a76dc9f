package config

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// API is how a kind of Istio's API is named outside, and the message that its spec is.
type API struct {
	Kind     Kind
	Group    string               // "networking.istio.io"
	Versions []string             // that are served, the preferred one first: "v1", "v1beta1", "v1alpha3"
	Spec     func() proto.Message // makes an empty one
}

// Types returns the type names that xDS has for the kind, one for each version, the preferred one first: "networking.istio.io/v1/Sidecar".
func (a API) Types() []string {
	out := make([]string, len(a.Versions))
	for i, v := range a.Versions {
		out[i] = a.Group + "/" + v + "/" + a.Kind.Word()
	}
	return out
}

// shown is an object in an API server's form.
type shown struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   shownMeta       `json:"metadata"`
	Spec       json.RawMessage `json:"spec"`
}

type shownMeta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Created     string            `json:"creationTimestamp,omitempty"`
	UID         string            `json:"uid,omitempty"`
	Version     string            `json:"resourceVersion,omitempty"`
	Generation  int64             `json:"generation,omitempty"`
}

// JSON returns an object of the kind in an API server's form, for Decoder.DecodeJSON. created is in the form of RFC 3339; empty: unknown.
// It returns an error if the spec cannot be written.
func (a API) JSON(k Key, labels, annotations map[string]string, created string, spec proto.Message) ([]byte, error) {
	body, err := protojson.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return json.Marshal(shown{APIVersion: a.Group + "/" + a.Versions[0], Kind: a.Kind.Word(), Spec: body, Metadata: shownMeta{
		Name: k.Name, Namespace: k.Namespace, Labels: labels, Annotations: annotations, Created: created,
	}})
}

// JSON returns the object in an API server's form, for Decoder.DecodeJSON. It is nil if no API server has the kind, and for Secrets and
// ConfigMaps: an object does not have all that these contain.
func (o *Object) JSON() ([]byte, error) {
	group, is := o.api()
	if !is {
		return nil, nil
	}
	body, err := o.SpecJSON()
	if err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", o.Key, err)
	}
	created := ""
	if o.Created != 0 {
		created = time.Unix(o.Created, 0).UTC().Format(time.RFC3339)
	}
	return json.Marshal(shown{APIVersion: group, Kind: o.Kind.Word(), Spec: body, Metadata: shownMeta{
		Name: o.Name, Namespace: o.Namespace, Labels: o.Labels.Map(), Annotations: o.Annotations, Created: created,
		UID: o.Stored.UID, Version: o.Stored.ResourceVersion, Generation: o.Stored.Generation,
	}})
}

// SpecJSON returns the object's specification as JSON.
func (o *Object) SpecJSON() ([]byte, error) {
	if o.Native != nil {
		return json.Marshal(o.Native)
	}
	return protojson.Marshal(o.Spec)
}

// api returns the group of the object's kind and its preferred version: "networking.istio.io/v1".
func (o *Object) api() (group string, is bool) {
	if o.Native != nil {
		return o.Kind.Group() + "/v1", true
	}
	k, is := apisByKind()[o.Kind]
	if !is {
		return "", false
	}
	return k.Group + "/" + k.Versions[0], true
}

var apisByKind = sync.OnceValue(APIsByKind)

// usualVersions are the versions of most kinds of networking.istio.io.
var usualVersions = []string{"v1", "v1beta1", "v1alpha3"}

// versions are the API versions of the kinds, in order of preference. The schemas have the same (TestVersions).
var versions = map[Kind][]string{
	VirtualService:        usualVersions,
	DestinationRule:       usualVersions,
	Gateway:               usualVersions,
	ServiceEntry:          usualVersions,
	Sidecar:               usualVersions,
	WorkloadEntry:         usualVersions,
	WorkloadGroup:         usualVersions,
	EnvoyFilter:           {"v1alpha3"},
	ProxyConfig:           {"v1beta1"},
	PeerAuthentication:    {"v1", "v1beta1"},
	RequestAuthentication: {"v1", "v1beta1"},
	AuthorizationPolicy:   {"v1", "v1beta1"},
	Telemetry:             {"v1", "v1alpha1"},
	WasmPlugin:            {"v1alpha1"},
	TrafficExtension:      {"v1alpha1"},
}

// APIs lists all kinds of Istio's API, in the order of Kinds.
func APIs() []API {
	var out []API
	for _, k := range kindTable() {
		out = append(out, API{Kind: k.name, Group: k.group, Versions: versions[k.name], Spec: k.empty})
	}
	return out
}

// APIsByKind returns all APIs by kind.
func APIsByKind() map[Kind]API {
	out := map[Kind]API{}
	for _, a := range APIs() {
		out[a.Kind] = a
	}
	return out
}
