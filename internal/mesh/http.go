package mesh

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// HTTPSettings are the settings of a proxy's own configuration for the requests that it receives: ProxyConfig.gatewayTopology,
// ProxyConfig.proxyHeaders and ProxyConfig.connectionSettings, and the metadata HTTP10. It is comparable; the zero value sets nothing.
type HTTPSettings struct {
	HTTP10        bool       // requests of HTTP/1.0 are accepted
	TrustedHops   uint32     // gateways: how many proxies in front are trusted with X-Forwarded-For (numTrustedProxies)
	ProxyProtocol bool       // gateways: connections begin with a header of the PROXY protocol
	Topology      ClientCert // gateways: how X-Forwarded-Client-Cert is handled (forwardClientCertDetails)

	ClientCert     ClientCert        // sidecars, inbound: the same (forwardedClientCert)
	Details        ClientCertDetails // sidecars, inbound: which parts of a client's certificate the header has; 0: the default
	Server         string            // the server header of responses, except to the workload's own requests; empty: the default
	KeepServer     bool              // responses keep their own server header
	NoRequestID    bool              // requests without an ID get none
	NoEnvoyHeaders bool              // headers about Envoy's own work, such as X-Envoy-Upstream-Service-Time, are not added
	Port           bool              // X-Forwarded-Port is added

	Own OwnSettings // see Apart
}

// OwnSettings are the settings that concern more than listeners, or that almost no proxy sets: for one proxy they change the resources that
// all proxies share. It is comparable; the zero value changes nothing.
type OwnSettings struct {
	NoAttempts    bool // X-Envoy-Attempt-Count is not added to requests
	ForwardedHost bool // X-Forwarded-Host has the original host if the request's host is rewritten
	KeepCase      bool // headers of HTTP/1 keep their case
	Connections   ConnectionSettings
}

// Apart returns the settings that listeners are made with, and those that change resources that were made without them.
func (s HTTPSettings) Apart() (HTTPSettings, OwnSettings) {
	own := s.Own
	s.Own = OwnSettings{}
	return s, own
}

// The words of OwnSettings.String.
const (
	noAttempts    = "no-attempts"
	forwardedHost = "forwarded-host"
	keepCase      = "case"
)

// String returns the names of the settings that are set, with "+" before each. ParseOwnSettings reads it.
func (s OwnSettings) String() string {
	out := ""
	for _, w := range [...]struct {
		said bool
		word string
	}{{s.NoAttempts, noAttempts}, {s.ForwardedHost, forwardedHost}, {s.KeepCase, keepCase}} {
		if w.said {
			out += "+" + w.word
		}
	}
	return out + string(s.Connections)
}

// ParseOwnSettings reads what String wrote.
func ParseOwnSettings(s string) OwnSettings {
	out := OwnSettings{}
	for word := range strings.SplitSeq(strings.TrimPrefix(s, "+"), "+") {
		switch word {
		case noAttempts:
			out.NoAttempts = true
		case forwardedHost:
			out.ForwardedHost = true
		case keepCase:
			out.KeepCase = true
		case "":
		default:
			out.Connections += ConnectionSettings("+" + word)
		}
	}
	return out
}

// Outbound returns the settings that count for a workload's own requests. None of them is free text of a proxy, so there are few distinct
// values.
func (s HTTPSettings) Outbound() HTTPSettings {
	return HTTPSettings{
		HTTP10: s.HTTP10, KeepServer: s.KeepServer, NoRequestID: s.NoRequestID, NoEnvoyHeaders: s.NoEnvoyHeaders, Port: s.Port,
	}
}

// String returns the names of the settings that are set, with "+" before each. Settings that differ have different strings.
func (s HTTPSettings) String() string {
	if s == (HTTPSettings{}) { // nearly every proxy has none, and variants are compared by this string
		return ""
	}
	out := ""
	say := func(said bool, what string) {
		if said {
			out += "+" + what
		}
	}
	say(s.HTTP10, "http1.0")
	say(s.TrustedHops > 0, "hops="+strconv.FormatUint(uint64(s.TrustedHops), 10))
	say(s.ProxyProtocol, "proxy-protocol")
	say(s.Topology != 0, "edge-xfcc="+s.Topology.String())
	say(s.ClientCert != 0, "xfcc="+s.ClientCert.String())
	say(s.Details != 0, fmt.Sprintf("details=%x", uint8(s.Details)))
	say(s.Server != "", "server="+strconv.Quote(s.Server))
	say(s.KeepServer, "keep-server")
	say(s.NoRequestID, "no-id")
	say(s.NoEnvoyHeaders, "no-envoy")
	say(s.Port, "port")
	return out + s.Own.String()
}

// ClientCert says how the header X-Forwarded-Client-Cert is handled (ForwardClientCertDetails of mesh/v1alpha1/proxy.proto).
type ClientCert uint8

// The ways to handle the header, with the proto's numbers.
const (
	UsualClientCert   ClientCert = iota // the default of this side of the proxy
	Sanitize                            // the header is removed
	ForwardOnly                         // the header is forwarded if the connection is mutual TLS
	AppendForward                       // as ForwardOnly, and the client's details are appended
	SanitizeSet                         // the header is replaced by the client's details
	AlwaysForwardOnly                   // the header is forwarded on every connection
	clientCerts
)

var clientCertNames = [clientCerts]string{
	"UNDEFINED", "SANITIZE", "FORWARD_ONLY", "APPEND_FORWARD", "SANITIZE_SET", "ALWAYS_FORWARD_ONLY",
}

func (c ClientCert) String() string { return clientCertNames[c] }

// ClientCertDetails are the parts of a client's certificate that the header says: a sum.
type ClientCertDetails uint8

// The parts (ProxyHeaders.SetCurrentClientCertDetails). SaidDetails distinguishes an empty sum that was set from one that was not.
const (
	SaidDetails ClientCertDetails = 1 << iota
	CertSubject
	CertWhole
	CertChain
	CertDNS
	CertURI
)

// maxServerName is how long the name may be that a proxy gives its server, in bytes.
const maxServerName = 256

// ReadHTTPSettings reads them from a ProxyConfig in its JSON form. Unknown fields are ignored. A field of the wrong type is an error that
// names the field.
func ReadHTTPSettings(proxyConfig map[string]any) (HTTPSettings, error) {
	var err error
	c := proxyFields{fields: proxyConfig, err: &err}
	topology, headers := c.in("gatewayTopology"), c.in("proxyHeaders")
	server := headers.in("server")
	s := HTTPSettings{
		TrustedHops:    topology.number("numTrustedProxies"),
		ProxyProtocol:  topology.in("proxyProtocol").fields != nil,
		Topology:       topology.clientCert("forwardClientCertDetails"),
		ClientCert:     headers.clientCert("forwardedClientCert"),
		Details:        headers.in("setCurrentClientCertDetails").details(),
		Server:         server.header("value"),
		KeepServer:     server.truth("disabled", false),
		NoRequestID:    headers.in("requestId").truth("disabled", false),
		NoEnvoyHeaders: headers.in("envoyDebugHeaders").truth("disabled", false),
		Port:           headers.in("xForwardedPort").truth("enabled", false),
		Own: OwnSettings{
			NoAttempts:    headers.in("attemptCount").truth("disabled", false),
			ForwardedHost: headers.in("xForwardedHost").truth("enabled", false),
			KeepCase:      headers.truth("preserveHttp1HeaderCase", false),
			Connections:   c.in("connectionSettings").connections(),
		},
	}
	return s, err
}

// proxyFields reads fields of a JSON object. The error is the first field of the wrong type.
type proxyFields struct {
	path   string
	fields map[string]any // nil: nothing
	err    *error
}

func (f proxyFields) wrong(name, want string) {
	if *f.err == nil {
		*f.err = &FieldError{Field: f.path + name, Want: want}
	}
}

// FieldError says which value a field of a ProxyConfig should have.
type FieldError struct {
	Field string // as "gatewayTopology.numTrustedProxies"
	Want  string
}

func (e *FieldError) Error() string { return e.Field + " must be " + e.Want }

func (f proxyFields) in(name string) proxyFields {
	out := proxyFields{path: f.path + name + ".", err: f.err}
	v := f.fields[name]
	if said, ok := v.(map[string]any); ok {
		out.fields = said
	} else if v != nil {
		f.wrong(name, "an object")
	}
	return out
}

func (f proxyFields) truth(name string, usual bool) bool {
	v := f.fields[name]
	if said, ok := v.(bool); ok {
		return said
	}
	if v != nil {
		f.wrong(name, "true or false")
	}
	return usual
}

func (f proxyFields) number(name string) uint32 {
	v := f.fields[name]
	if n, ok := v.(float64); ok && n >= 0 && n <= math.MaxUint32 && n == math.Trunc(n) {
		return uint32(n)
	}
	if v != nil {
		f.wrong(name, "a whole number from 0")
	}
	return 0
}

// header is text that can be the value of a header.
func (f proxyFields) header(name string) string {
	v := f.fields[name]
	s, ok := v.(string)
	hidden := func(r rune) bool { return r < ' ' || r > '~' }
	if v != nil && (!ok || len(s) > maxServerName || strings.ContainsFunc(s, hidden)) {
		f.wrong(name, fmt.Sprintf("at most %d visible characters of ASCII", maxServerName))
		return ""
	}
	return s
}

// clientCert reads a way to handle the header by its name or its number. An unknown one counts as not set.
func (f proxyFields) clientCert(name string) ClientCert {
	switch v := f.fields[name].(type) {
	case nil:
	case string:
		return ClientCert(max(0, slices.Index(clientCertNames[:], v)))
	case float64:
		if v >= 0 && v < float64(clientCerts) {
			return ClientCert(v)
		}
	default:
		f.wrong(name, "the name of a way with the header")
	}
	return UsualClientCert
}

// details returns the parts that are set, with these defaults; 0 if none is set.
func (f proxyFields) details() (sum ClientCertDetails) {
	if f.fields == nil {
		return 0
	}
	sum = SaidDetails
	for _, d := range [...]struct {
		name  string
		part  ClientCertDetails
		usual bool
	}{
		{"subject", CertSubject, true},
		{"cert", CertWhole, false},
		{"chain", CertChain, false},
		{"dns", CertDNS, true},
		{"uri", CertURI, true},
	} {
		if f.truth(d.name, d.usual) {
			sum |= d.part
		}
	}
	return sum
}
