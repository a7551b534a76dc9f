package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/config/report"
	"fairway/internal/identity"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// Credential is the part of a Secret that is used here: a certificate with its key, authorities' certificates, credentials for registries;
// several of them, or none. It is immutable.
type Credential struct {
	Chain  []byte           // PEM certificates, the leaf first; nil: the Secret holds none
	Key    identity.Private // of the leaf
	Staple []byte           // an OCSP response in DER; nil: none
	CA     []byte           // PEM certificates; nil: none
	CRL    []byte           // PEM revocation lists of CA; nil: none
	// Registries are credentials for registries of images, in the form of Docker's config.json; the zero Private holds nothing.
	Registries identity.Private
	// Holders are the service accounts that may have it.
	Holders Holders
	// Gateways are the namespaces with Gateways that may use it.
	Gateways Gateways
	// Parameters are the values of a ConfigMap's ParameterKeys, by key; nil: it has none.
	Parameters map[string]string
	OtherKeys  []string // of a ConfigMap, sorted
}

// TLSType is the type of a Secret that must hold a certificate and its key.
const TLSType = "kubernetes.io/tls"

// The keys of a Secret that TLS reads: those of Istio's own form first, then those of Kubernetes' (ServerTLSSettings.credential_name and
// ClientTLSSettings.credential_name in istio.io/api).
var (
	pairKeys      = [...][2]string{{"cert", "key"}, {"tls.crt", "tls.key"}}
	authorityKeys = [...][2]string{{"cacert", "crl"}, {"ca.crt", "ca.crl"}}
)

// Bounds, in bytes.
const (
	maxSecret = 1 << 20  // of a Secret's values, as in an API server
	maxKey    = 32 << 10 // of a private key in PEM; the largest RSA key that Envoy accepts has a third of that
)

const stapleKey = "tls.ocsp-staple"

// Input is a Secret or a ConfigMap on its way to a Credential.
type Input struct {
	Tree        map[string]any    // the whole object, with apiVersion, kind and metadata
	Annotations map[string]string // of its metadata
	Now         func() time.Time  // the clock for the dates of certificates
	Report      *report.Report
}

// secret is the state of reading one Secret. None of its problems contains a value.
type secret struct {
	Input
	values map[string][]byte
	fields map[string]string // the field of each value
	public map[string]any    // the part that a page may show
	out    *Credential
}

// Read checks a Secret as an API server does, then as Envoy will. public is the part that all users may see. Both are nil if the report has
// an Error, for example because a credential in the Secret cannot be used.
func Read(in Input) (credential *Credential, public *structpb.Struct) {
	s := &secret{Input: in, values: map[string][]byte{}, fields: map[string]string{}, public: map[string]any{}, out: &Credential{}}
	s.checkFields("type", "data", "stringData")
	s.read("data", fromBase64)
	s.read("stringData", asItIs)
	s.checkSize()
	if in.Report.Failed() {
		return nil, nil
	}
	s.takePair()
	s.takeAuthorities()
	s.takeRegistries()
	s.readHolders()
	s.readGateways()
	if in.Report.Failed() {
		return nil, nil
	}
	if kind, ok := s.Tree["type"].(string); ok {
		s.public["type"] = kind
	}
	if s.out.Holders != "" {
		s.public["serviceAccounts"] = string(s.out.Holders)
	}
	if s.out.Gateways != "" {
		s.public["gatewayNamespaces"] = string(s.out.Gateways)
	}
	return s.shown()
}

// ReadMap reads a ConfigMap like Read, but only authorities' certificates, and the parameters of Gateways: it is not a place for a
// certificate's key. Every proxy of its namespace may have the certificates.
func ReadMap(in Input) (credential *Credential, public *structpb.Struct) {
	s := &secret{Input: in, values: map[string][]byte{}, fields: map[string]string{}, public: map[string]any{}, out: &Credential{}}
	s.checkFields("data", "binaryData")
	s.read("data", asItIs)
	s.checkSize()
	if in.Report.Failed() {
		return nil, nil
	}
	s.takeAuthorities()
	s.takeParameters()
	if in.Report.Failed() {
		return nil, nil
	}
	return s.shown()
}

// checkFields refuses the fields that an API server would refuse. more are allowed in addition to those that every object has.
func (s *secret) checkFields(more ...string) {
	for _, k := range slices.Sorted(maps.Keys(s.Tree)) {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "immutable"}, k) && !slices.Contains(more, k) {
			s.Report.Fail(k, code.UnknownField, "unknown field "+strconv.Quote(k), "")
		}
	}
}

// shown returns the credential and the part of it that all users may see.
func (s *secret) shown() (*Credential, *structpb.Struct) {
	s.public["keys"] = anyList(slices.Sorted(maps.Keys(s.values)))
	spec, err := structpb.NewStruct(s.public)
	if err != nil {
		s.Report.Fail("", code.BadSecret, "a key is not UTF-8", "")
		return nil, nil
	}
	return s.out, spec
}

func asItIs(text string) ([]byte, bool) { return []byte(text), true }

// fromBase64 takes line ends, as an API server does.
func fromBase64(text string) ([]byte, bool) {
	out, err := base64.StdEncoding.DecodeString(text)
	return out, err == nil
}

// read collects the values of a field; a field that is read later has precedence.
func (s *secret) read(field string, decode func(string) ([]byte, bool)) {
	values, ok := s.Tree[field].(map[string]any)
	if !ok {
		if s.Tree[field] != nil {
			s.Report.Fail(field, code.WrongType, field+" is not a set of fields", "")
		}
		return
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		at := field + "." + k
		text, ok := values[k].(string)
		if !ok && values[k] != nil {
			s.Report.Fail(at, code.WrongType, "the value is not a string", "put it in quotes")
			continue
		}
		value, ok := decode(text)
		if !ok {
			s.Report.Fail(at, code.BadBase64, "the value is not base64", "write it under stringData as it is, or encode it: base64 -w0")
			continue
		}
		s.values[k], s.fields[k] = value, at
	}
}

func (s *secret) checkSize() {
	size := 0
	for k, v := range s.values {
		size += len(k) + len(v)
	}
	if size > maxSecret {
		s.Report.Fail("data", code.TooMuch, fmt.Sprintf("the object holds %d bytes of at most %d", size, maxSecret), "")
	}
}

func (s *secret) has(key string) bool { return len(s.values[key]) > 0 }

// where returns the field of a key; a missing key has the field of its neighbour.
func (s *secret) where(key, neighbour string) string {
	if at := s.fields[key]; at != "" {
		return at
	}
	field, _, _ := strings.Cut(s.fields[neighbour], ".")
	return cmp.Or(field, "data")
}

// takePair reads the certificate and its key, if there are any.
func (s *secret) takePair() {
	names, ok := s.pairNames()
	if !ok {
		return
	}
	for i, k := range names {
		if !s.has(k) {
			s.Report.Fail(s.where(k, names[1-i]), code.Missing, "the Secret has no "+k,
				"a certificate and its key belong together: "+names[0]+" and "+names[1])
		}
	}
	if !s.Report.Failed() {
		s.checkPair(s.fields[names[0]], s.fields[names[1]], s.values[names[0]], s.values[names[1]])
	}
	if s.has(stapleKey) && !s.Report.Failed() {
		s.checkStaple(s.fields[stapleKey], s.values[stapleKey])
	}
}

// pairNames returns the keys of the certificate and its private key, also if they are missing. ok is false if the Secret is not for a
// certificate.
func (s *secret) pairNames() (names [2]string, ok bool) {
	for _, names := range pairKeys {
		if s.has(names[0]) && s.has(names[1]) {
			return names, true
		}
	}
	if s.Tree["type"] == TLSType {
		return pairKeys[1], true
	}
	for _, names := range pairKeys {
		if s.isPEM(names[0]) || s.isPEM(names[1]) { // one of the two: a word like "key" may stand for anything
			return names, true
		}
	}
	return names, false
}

func (s *secret) isPEM(key string) bool { return bytes.Contains(s.values[key], []byte("-----BEGIN ")) }

// takeAuthorities reads the authorities' certificates, if there are any.
func (s *secret) takeAuthorities() {
	for _, names := range authorityKeys {
		if s.has(names[0]) {
			s.checkAuthorities(s.fields[names[0]], s.values[names[0]])
			if s.has(names[1]) {
				s.checkRevoked(s.fields[names[1]], s.values[names[1]])
			}
			return
		}
	}
	for _, names := range authorityKeys {
		if s.has(names[1]) && s.out.Chain != nil {
			s.Report.Add(s.fields[names[1]], code.Unused, mesh.Warning,
				"the Secret has a "+names[1]+" but no "+names[0]+" that it is of: it is not used", "")
		}
	}
}

func anyList(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}
