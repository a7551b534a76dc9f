package zookeeper

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unique"

	"fairway/internal/mesh"
	"fairway/internal/printable"
)

const (
	maxName = 64 << 10 // bytes of a node's name: a provider's URL
	maxText = 1 << 20  // of a node's content
	maxWord = 256      // of a word that becomes a label
)

// place is one where something is served: a provider's URL, or an endpoint of an application's instance. It is comparable.
type place struct {
	Scheme         string // dubbo, tri, rest, …
	Address        string
	Port           uint32
	Group, Version string
	Labels         mesh.Labels
	Locality       mesh.Locality
	Weight         uint32 // defaultWeight where it says none
	Off            bool   // it takes no requests
	Stamp          int64  // when it was registered, in the word of who did
}

// words are what the places of a service mostly have in common.
type words struct {
	scheme, group, version string
	labels                 mesh.Labels
	locality               mesh.Locality
}

// provider is a place as it is kept: there may be very many. Nothing of it holds on to the URL that it was read from.
type provider struct {
	words   unique.Handle[words]
	address string
	stamp   int64
	until   int64 // when one that is missing goes, in ns since 1970; 0: it is there
	port    uint32
	weight  uint32
	off     bool
}

// provider returns the place as it is kept.
func (p place) provider() provider {
	return provider{
		words:   unique.Make(words{p.Scheme, p.Group, p.Version, p.Labels, p.Locality}),
		address: strings.Clone(p.Address), stamp: p.Stamp, port: p.Port, weight: p.Weight, off: p.Off,
	}
}

// place returns the place of the provider.
func (k provider) place() place {
	w := k.words.Value()
	return place{
		Scheme: w.scheme, Address: k.address, Port: k.port, Group: w.group, Version: w.version, Labels: w.labels, Locality: w.locality,
		Weight: k.weight, Off: k.off, Stamp: k.stamp,
	}
}

// defaultWeight is Dubbo's own.
const defaultWeight = 100

// id returns the identity of a place among those of an interface. It stays when a provider is started again at the same
// address.
func (p place) id() string {
	return p.Scheme + "/" + net.JoinHostPort(p.Address, strconv.FormatUint(uint64(p.Port), 10)) + identity(p.Group, p.Version)
}

// identity returns the identity of a service among those of an interface: "/group/version".
func identity(group, version string) string {
	if group == "" && version == "" {
		return ""
	}
	return "/" + group + "/" + version
}

// labelled are the parameters that become labels, by their names there.
var labelled = map[string]string{
	"application": "application", "group": "group", "version": "version", "release": "release", "environment": "environment",
	"dubbo.tag": "tag", "tag": "tag",
}

// parseProvider reads the name of a node below providers.
func parseProvider(name string, further []string) (place, error) {
	u, params, err := parseURL(name)
	if err != nil {
		return place{}, err
	}
	out := place{
		Scheme: shared(strings.ToLower(u.Scheme)), Group: shared(params.Get("group")), Version: shared(params.Get("version")),
		Weight: defaultWeight,
		Off:    params.Get("disabled") == "true" || params.Get("enabled") == "false",
		Locality: mesh.Locality{
			Region: shared(params.Get("region")), Zone: shared(params.Get("zone")), SubZone: shared(params.Get("subzone")),
		},
	}
	if out.Scheme == "empty" {
		return place{}, errNothing
	}
	if out.Address, out.Port, err = hostPort(u.Host); err != nil {
		return place{}, err
	}
	if text := params.Get("weight"); text != "" {
		w, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return place{}, fmt.Errorf("its weight is %q, which is not a number", printable.Text(text, printable.Short))
		}
		out.Weight = uint32(w)
	}
	out.Stamp, _ = strconv.ParseInt(params.Get("timestamp"), 10, 64) // one that says none is the oldest
	labels := map[string]string{"protocol": out.Scheme}
	for key := range params {
		if as := labelled[key]; as != "" {
			labels[as] = params.Get(key)
		} else if slices.Contains(further, key) || istios(key) {
			labels[key] = params.Get(key)
		}
	}
	out.Labels = makeLabels(labels)
	return out, nil
}

// istios reports whether a label is one that the mesh itself goes by.
func istios(key string) bool {
	return strings.HasPrefix(key, "security.istio.io/") || strings.HasPrefix(key, "topology.istio.io/")
}

// errNothing is not a mistake: the node says that there is no provider.
var errNothing = errors.New("it names no provider")

func parseURL(name string) (*url.URL, url.Values, error) {
	if len(name) > maxName {
		return nil, nil, fmt.Errorf("it has %d bytes; want at most %d", len(name), maxName)
	}
	text, err := url.QueryUnescape(name)
	if err != nil || !utf8.ValidString(text) {
		return nil, nil, errors.New("it is not a URL")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return nil, nil, errors.New("it is not a URL; want dubbo://host:port/interface")
	}
	params, _ := url.ParseQuery(u.RawQuery) // what cannot be read of it says nothing
	return u, params, nil
}

func hostPort(text string) (string, uint32, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, errors.New("it names no port")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("its port is %q", printable.Text(port, printable.Short))
	}
	return host, uint32(n), nil
}

// makeLabels leaves out what cannot be one.
func makeLabels(in map[string]string) mesh.Labels {
	for k, v := range in {
		if v == "" || strings.Contains(v, ",") || !printable.Is(v, maxWord) || !printable.Is(k, maxWord) {
			delete(in, k)
		}
	}
	return mesh.Labels(shared(string(mesh.MakeLabels(in))))
}

func shared(s string) string { return unique.Make(s).Value() }

// override is what a configurator says of providers.
type override struct {
	host    string // empty: of all
	port    uint32 // 0: any
	group   string // empty or "*": any
	version string
	weight  *uint32
	off     *bool
	text    string // orders
}

// parseOverride reads the name of a node below configurators. ok is false if it is not about weights, or about which providers take
// requests.
func parseOverride(name string) (out override, ok bool, err error) {
	u, params, err := parseURL(name)
	if err != nil {
		return out, false, err
	}
	if u.Scheme != "override" && u.Scheme != "absent" || params.Get("enabled") == "false" || params.Get("side") == "consumer" {
		return out, false, nil
	}
	out = override{text: name, group: params.Get("group"), version: params.Get("version")}
	if host := u.Hostname(); host != "0.0.0.0" && host != "" {
		out.host = host
		if port := u.Port(); port != "" && port != "0" {
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return out, false, fmt.Errorf("its port is %q", printable.Text(port, printable.Short))
			}
			out.port = uint32(n)
		}
	}
	if text := params.Get("weight"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return out, false, fmt.Errorf("its weight is %q, which is not a number", printable.Text(text, printable.Short))
		}
		w := uint32(n)
		out.weight = &w
	}
	if text := params.Get("disabled"); text != "" {
		off := text == "true"
		out.off = &off
	}
	return out, out.weight != nil || out.off != nil, nil
}

// change applies overrides to a place: those of one host after those of all.
func change(p place, all []override) place {
	for _, o := range all {
		switch {
		case o.host != "" && o.host != p.Address, o.port != 0 && o.port != p.Port:
		case o.group != "" && o.group != "*" && o.group != p.Group, o.version != "" && o.version != "*" && o.version != p.Version:
		default:
			if o.weight != nil {
				p.Weight = *o.weight
			}
			if o.off != nil {
				p.Off = *o.off
			}
		}
	}
	return p
}

func sortOverrides(all []override) {
	slices.SortFunc(all, func(a, b override) int {
		return cmp.Or(cmp.Compare(len(a.host), len(b.host)), cmp.Compare(a.port, b.port), cmp.Compare(a.text, b.text))
	})
}

// instance is what a node below an application says.
type instance struct {
	places   []place
	revision string // of the application's metadata; empty: it says none
	remote   bool   // the metadata is in ZooKeeper too
}

// parseInstance reads a node's content: JSON as Curator's service discovery writes it, with what Dubbo or Spring Cloud put
// into it.
func parseInstance(text []byte, further []string) (out instance, err error) {
	if len(text) > maxText {
		return out, fmt.Errorf("its content has %d bytes; want at most %d", len(text), maxText)
	}
	var in struct {
		Address string  `json:"address"`
		Port    *uint32 `json:"port"`
		SSLPort *uint32 `json:"sslPort"`
		Stamp   int64   `json:"registrationTimeUTC"`
		Payload *struct {
			Metadata map[string]any `json:"metadata"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return out, errors.New("its content is not JSON of an instance")
	}
	if in.Address == "" {
		return out, errors.New("it has no address")
	}
	meta := map[string]string{}
	if in.Payload != nil {
		for k, v := range in.Payload.Metadata {
			if s, is := v.(string); is {
				meta[k] = s
			}
		}
	}
	labels := map[string]string{}
	for k, v := range meta {
		if len(v) <= 128 && (k == "version" || k == "group" || k == "environment" || slices.Contains(further, k) || istios(k)) {
			labels[k] = v
		} else if labelled[k] != "" && len(v) <= 128 {
			labels[labelled[k]] = v
		}
	}
	one := place{
		Address: in.Address, Weight: defaultWeight, Stamp: in.Stamp, Labels: makeLabels(labels),
		Locality: mesh.Locality{Region: meta["region"], Zone: meta["zone"], SubZone: meta["subzone"]},
		Off:      meta["instance_status"] == "OUT_OF_SERVICE" || meta["dubbo.status"] == "OUT_OF_SERVICE",
	}
	if w, err := strconv.ParseUint(meta["weight"], 10, 32); err == nil {
		one.Weight = uint32(w)
	}
	out.revision, out.remote = meta["dubbo.metadata.revision"], meta["dubbo.metadata.storage-type"] == "remote"
	for _, at := range endpointsOf(meta["dubbo.endpoints"]) {
		p := one
		p.Scheme, p.Port = shared(strings.ToLower(at.Protocol)), at.Port
		out.places = append(out.places, p)
	}
	if len(out.places) > 0 {
		return out, nil
	}
	switch { // Spring Cloud's, or an older Dubbo's
	case in.Port != nil && *in.Port > 0 && *in.Port <= 65535:
		one.Port, one.Scheme = *in.Port, meta["protocol"]
	case in.SSLPort != nil && *in.SSLPort > 0 && *in.SSLPort <= 65535:
		one.Port, one.Scheme = *in.SSLPort, "https"
	default:
		return out, errors.New("it has no port")
	}
	out.places = []place{one}
	return out, nil
}

type endpoint struct {
	Port     uint32 `json:"port"`
	Protocol string `json:"protocol"`
}

// endpointsOf reads what Dubbo writes of an instance's ports; what cannot be read is left out.
func endpointsOf(text string) (out []endpoint) {
	var all []endpoint
	if json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	for _, e := range all {
		if e.Port > 0 && e.Port <= 65535 && len(out) < 20 {
			out = append(out, e)
		}
	}
	return out
}

// offer is one service in the metadata of an application.
type offer struct{ Name, Group, Version, Protocol string }

// parseMetadata reads what an application serves: MetadataInfo, as Dubbo writes it.
func parseMetadata(text []byte) ([]offer, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("its content has %d bytes; want at most %d", len(text), maxText)
	}
	var in struct {
		Services map[string]offer `json:"services"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, errors.New("its content is not JSON of an application's metadata")
	}
	out := make([]offer, 0, len(in.Services))
	for _, s := range in.Services {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b offer) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.Protocol, b.Protocol))
	})
	return out, nil
}

// protocols are what schemes are in the mesh; those that are not named are streams of bytes.
var protocols = map[string]string{
	"dubbo": "dubbo", "tri": "grpc", "grpc": "grpc", "rest": "http", "http": "http", "https": "https", "": "",
}

func protocolOf(scheme string) string {
	if p, ok := protocols[strings.ToLower(scheme)]; ok {
		return p
	}
	return "tcp"
}
